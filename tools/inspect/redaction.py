"""Texts without secrets: those that are known, in every form, and whatever looks like one [CMD18]."""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import quote, unquote, urlsplit

from rollup_node.node.options.option import AnyOption

MASK = "***"
MIN_SECRET = 4
"""Characters of a secret that is looked for: shorter ones are in every text. Such URLs are cut all the same."""
MIN_PATH = 8
"""Characters of a part of a path: shorter ones are words such as `rpc` or `beacon`."""

_URL = re.compile(r"\b([a-z][a-z0-9+.-]*:/{1,3})([^\s\"'<>\\]*)", re.IGNORECASE)
_TOKEN = re.compile(r"\beyJ[\w-]+(?:\.[\w-]+){1,2}")
_HEADER = re.compile(r"(authorization|proxy-authorization|cookie|x-api-key|api-key)(\W{1,4})[^\r\n\"']+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


class Redactor:
    """Removes secrets from texts; `secrets` are texts such as keys, passwords and headers."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if len(form) >= MIN_SECRET}
        longest_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)

    def text(self, text: str) -> str:
        """Return the text with a mask in place of each secret, and URLs as far as their hosts."""
        text = self._known.sub(MASK, _PEM.sub(MASK, text))
        text = _URL.sub(lambda match: match[1] + _host(match[2]), text)
        text = _BEARER.sub(rf"\1 {MASK}", _HEADER.sub(rf"\1\2{MASK}", text))
        return self._known.sub(MASK, _TOKEN.sub(MASK, text))


def _host(rest: str) -> str:
    """Return what follows the scheme of a URL without user, path and query."""
    authority, slash, after = re.split(r"([/?#]|\Z)", rest, maxsplit=1)
    user, at, host = authority.rpartition("@")
    # A password may have a slash, though that is no URL.
    if "@" in after:
        return f"{MASK}@{_host(after.rpartition('@')[2])}"
    return f"{MASK if user else ''}{at}{host}" + (f"{slash}{MASK}" if after else slash)


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as programs write it: quoted, in JSON, in base64, as bytes of Python, with and without 0x."""
    secret = secret.strip()
    for text in {secret, unquote(secret)}:
        data = text.encode(errors="surrogatepass")
        yield from (text, quote(text, safe=""), quote(text), json.dumps(text)[1:-1], repr(text)[1:-1], repr(data)[2:-1])
        yield base64.b64encode(data).decode().rstrip("=")
        yield base64.urlsafe_b64encode(data).decode().rstrip("=")
    digits = secret[2:] if secret[:2] in ("0x", "0X") else secret
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        return
    yield from (digits, repr(data)[2:-1], base64.b64encode(data).decode().rstrip("="))


def secrets_in_options(options: Iterable[tuple[AnyOption, Sequence[str]]]) -> Iterator[str]:
    """Yield the secrets in the texts of options, valid or not: keys, headers, and parts of URLs."""
    for option, whole in options:
        texts = [part for text in whole for part in (text, *text.split(","))]
        if option.secret:
            for text in texts:
                yield text
                yield text.partition(":")[2]
                yield text.partition("=")[2]
        elif "url" in option.value_type.label or "://" in " ".join(texts):
            for text in texts:
                yield from _secrets_in_url(text)


def _secrets_in_url(text: str) -> Iterator[str]:
    """Yield user and password, and what follows the host: the keys of providers are there."""
    after_scheme = text.partition("://")[2]
    user, at, host = after_scheme.rpartition("@")
    if at:
        yield from (user, *user.split(":", 1))
        yield user.partition(":")[2]
    path = re.split(r"[/?#]", host, maxsplit=1)
    if len(path) < 2:
        return
    yield from (part for part in (path[1], *re.split(r"[/?#&]", path[1])) if len(part) >= MIN_PATH)
    try:
        query = urlsplit(text).query
    except ValueError:
        return
    yield from (part.partition("=")[2] for part in query.split("&"))
