"""The token of requests to an engine; keeps credentials out of the texts of errors, which show answers [LHD33]."""

import time
from collections.abc import Iterable, Mapping

from yarl import URL

from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import parsed_url
from rollup_node.stages.io.http.proxies import basic_login, is_loopback
from rollup_node.stages.protocol.jwt_token import authorization

TOKEN_SECONDS = 5.0


class RequestHeaders:
    """The headers of requests to a URL: the bearer token, renewed when it is TOKEN_SECONDS old [OPT74].

    Without a `secret` there is none. Answers of this machine are not to be compressed [ENG46]."""

    def __init__(self, url: str, secret: bytes | None) -> None:
        self._secret, self._made_at = secret, float("-inf")
        self._headers = {"Accept-Encoding": "identity"} if is_loopback(parsed_url(url) or URL()) else {}

    def __call__(self) -> dict[str, str]:
        now = time.time()
        if self._secret is not None and not 0 <= now - self._made_at < TOKEN_SECONDS:
            self._headers = self._headers | {"Authorization": authorization(self._secret, now)}
            self._made_at = now
        return self._headers


MASK = b"***"
SHORT_BODY = 4096
"""Bytes of an answer of JSON-RPC that may be an error alone."""

_PUBLIC_HEADERS = frozenset({"accept", "accept-encoding", "content-type"})
_SHORTEST_VALUE, _SHORTEST_WORD, _SHORTEST_PATH = 4, 8, 16
"""Characters of a header's value, of a word in it or in the query, and of a part of the path that may be secret."""


class Credentials:
    """The login, long path parts and query values of a URL, and the values of its request headers, as shown back."""

    def __init__(self, url: URL) -> None:
        login = basic_login(url).removeprefix("Basic ")
        words = [url.user or "", url.password or "", url.raw_password or "", login, *url.query.values()]
        self._of_url = _long(words, _SHORTEST_WORD) | _long([*url.parts, *url.raw_parts], _SHORTEST_PATH)

    def masked(self, body: bytes, headers: Mapping[str, str], status: int = 0) -> bytes:
        """Return the body of an answer that may be shown, with the credentials of URL and `headers` masked.

        That of a success is returned as it is if it is JSON, and no error."""
        if is_success(status) and body[:1] in (b"{", b"[") and (len(body) > SHORT_BODY or b'"error"' not in body):
            return body
        values = [value for name, value in headers.items() if name.lower() not in _PUBLIC_HEADERS]
        words = _long((word for value in values for word in value.split()), _SHORTEST_WORD)
        for secret in sorted(self._of_url | words | _long(values, _SHORTEST_VALUE), key=len, reverse=True):
            body = body.replace(secret, MASK)
        return body


def _long(words: Iterable[str], shortest: int) -> set[bytes]:
    return {word.encode() for word in words if len(word) >= shortest}
