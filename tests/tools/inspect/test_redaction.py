"""No secret is left in a text, wherever it stands and however it is written [CMD18]."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS
from rollup_node.tools.inspect.redaction import MIN_SECRET, Redactor, secrets_in_options

HEX = st.binary(min_size=32, max_size=32).map(bytes.hex)
WORD = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.!$&'()*+;=:@%", min_size=12, max_size=40
)
SECRET_OPTIONS = [option for option in OPTIONS.values() if option.secret]
URL_OPTIONS = [
    option for option in OPTIONS.values() if "url" in option.value_type.label and option.help != "No effect."
]
LINES = [
    't=1 lvl=info msg="it is {}"',
    '{{"error": "{}"}}',
    "connect https://{}@provider.example:443/x failed",
    "GET http://provider.example/v3/{}?a=b",
    "Authorization: Bearer {}",
    "x{}y",
    "{}",
]


def forms(secret: str) -> list[str]:
    return [
        secret,
        secret.upper(),
        quote(secret, safe=""),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        base64.b64encode(secret.encode()).decode(),
    ]


@pytest.mark.parametrize("option", SECRET_OPTIONS, ids=lambda option: option.name)
@settings(max_examples=30)
@given(data=st.data())
def test_no_secret_option_is_left(option: AnyOption, data: st.DataObject) -> None:
    secret = data.draw(HEX if option.value_type.label == "string" and "header" not in option.name else WORD)
    text = {"l1.beacon-header": f"X-Key: {secret}", "signer.header": f"X-Key={secret}"}.get(option.name, secret)
    redactor = Redactor(secrets_in_options([(option, (text,))]))
    for line in LINES:
        for form in forms(secret):
            shown = redactor.text(line.format(form))
            assert form not in shown and secret.lower() not in shown.lower(), line


@pytest.mark.parametrize("option", URL_OPTIONS, ids=lambda option: option.name)
@settings(max_examples=30)
@given(user=WORD, password=WORD, key=WORD)
def test_no_part_of_a_url_but_its_host_is_left(option: AnyOption, user: str, password: str, key: str) -> None:
    user, password = quote(user, safe=""), quote(password, safe="")
    url = f"https://{user}:{password}@provider.example:443/v3/{quote(key)}?token={quote(key, safe='')}"
    redactor = Redactor(secrets_in_options([(option, (url,))]))
    basic = base64.b64encode(f"{user}:{password}".encode()).decode()
    for line in ("it is {}", "url={} x", '["{}"]', "({})"):
        for secret in (url, password, key, basic, quote(key, safe="")):
            shown = redactor.text(line.format(secret))
            assert password not in shown and key not in shown and basic not in shown
    assert "provider.example" in redactor.text(f"calls {url} now")


@given(st.text(), st.lists(st.text(min_size=MIN_SECRET), max_size=3))
def test_any_text_and_any_secrets_are_taken(text: str, secrets: list[str]) -> None:
    redactor = Redactor(secrets)
    shown = redactor.text(text + "".join(secrets))
    assert all(
        secret.strip() not in shown for secret in secrets if len(secret.strip()) >= MIN_SECRET and "*" not in secret
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pw@h:1/a/b?c=d x", "http://***@h:1/*** x"),
        ("at https://h/ and ws://h:2", "at https://h/ and ws://h:2"),
        ("http://user:p/w@h:1/key", "http://***@h:1/***"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***"),
        ("token eyJhbGciOiJIUzI1NiJ9.eyJpYXQiOjF9.c2ln end", "token *** end"),
        ("a -----BEGIN EC PRIVATE KEY-----\nMIG\nx", "a ***"),
        ("block 5:0x77576d38a0 hash " + "ab" * 32, "block 5:0x77576d38a0 hash " + "ab" * 32),
        ("component=rpc msg=ready t=2026-11-29T02:03:07.350Z", "component=rpc msg=ready t=2026-11-29T02:03:07.350Z"),
        ("/ip4/10.0.0.1/tcp/9222/p2p/16Uiu2HAm", "/ip4/10.0.0.1/tcp/9222/p2p/16Uiu2HAm"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_the_rest_is_left(text: str, shown: str) -> None:
    assert Redactor(()).text(text) == shown
