"""The token of requests to an execution engine."""

import time

from yarl import URL

from rollup_node.stages.io.http.endpoint_errors import parsed_url
from rollup_node.stages.io.http.proxies import is_loopback
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
