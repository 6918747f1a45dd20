"""Tokens of the Engine API's form."""

import base64
import hmac
import json

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.jwt_token import MAX_AGE, authorization, token_error

SECRET = bytes(range(32))
NOW = 1_700_000_000


def by_hand(payload: bytes, header: bytes = b'{"alg":"HS256","typ":"JWT"}', secret: bytes = SECRET) -> str:
    """Return a signed token without the library."""
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in (header, payload))
    signature = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=")
    return f"Bearer {(signed + b'.' + signature).decode()}"


def token(secret: bytes = SECRET, algorithm: str = "HS256", **claims: object) -> str:
    return "Bearer " + jwt.encode(claims, secret, algorithm=algorithm)


def test_fresh_tokens_of_the_secret_pass() -> None:
    for issued in (NOW, NOW - MAX_AGE, NOW + MAX_AGE):
        assert token_error(token(iat=issued), SECRET, NOW) is None


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("", "missing token"),
        ("Basic x", "missing token"),
        ("Bearer x", "malformed token"),
        ("Bearer a.b.c", "malformed token"),
        ("Bearer a.b\udcff.c", "malformed token"),
        ("Bearer " + base64.urlsafe_b64encode(b'{"alg":"none"}').decode() + ".e30.", "token is not signed with HS256"),
        (token(iat=NOW - MAX_AGE - 1), "token is stale or has no iat"),
        (token(iat=NOW + MAX_AGE + 1), "token is stale or has no iat"),
        (token(), "token is stale or has no iat"),
        (token(b"y" * 32, iat=NOW), "signature is invalid"),
        (token(SECRET * 2, "HS512", iat=NOW), "token is not signed with HS256"),
    ],
)
def test_other_headers_are_rejected(header: str, reason: str) -> None:
    assert token_error(header, SECRET, NOW) == reason


@given(st.binary(min_size=32, max_size=32), st.floats(0, 1 << 40))
def test_our_tokens_are_those_made_by_hand(secret: bytes, now: float) -> None:
    header = authorization(secret, now)
    assert token_error(header, secret, now) is None
    assert header == by_hand(json.dumps({"iat": int(now)}, separators=(",", ":")).encode(), secret=secret)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b'{"iat":1700000000,"exp":1,"nbf":9999999999,"aud":"x","sub":7}', None),
        (b'{"iat":1700000000.5}', None),
        (b'{"iat":1e400}', "malformed token"),
        (b'{"iat":1' + b"0" * 400 + b"}", "malformed token"),
        (b'{"iat":"1700000000"}', "token is stale or has no iat"),
        (b"[]", "token is stale or has no iat"),
        (b'{"iat":NaN}', "malformed token"),
        (b"[" * 5000, "malformed token"),
        (b"\xff", "malformed token"),
    ],
)
def test_only_the_time_of_issue_counts(payload: bytes, reason: str | None) -> None:
    assert token_error(by_hand(payload), SECRET, NOW) == reason


@pytest.mark.parametrize(
    "header",
    [
        *(b"[" * 5000, b"[]", b"null", b"{}", b"1" * 5000, b"\xff", b'{"alg":"RS256"}', b'{"alg":"none"}'),
        *(b'{"alg":["HS256"]}', b'{"alg":{}}', b'{"alg":"HS256","crit":["x"]}', b'{"alg":"HS256","b64":false}'),
    ],
)
def test_any_head_is_rejected_with_a_reason(header: bytes) -> None:
    assert token_error(by_hand(b'{"iat":1700000000}', header), SECRET, NOW) in (
        "malformed token",
        "token is not signed with HS256",
    )
