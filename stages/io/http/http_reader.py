"""Reads resources over HTTP, bounded in time and bytes; redirects are not followed."""

from collections.abc import Mapping
from typing import Protocol

from yarl import URL

from rollup_node.stages.io.http.plain_http import HttpAnswer, PlainHttpReader
from rollup_node.stages.io.http.url_schemes import is_plain_http


class HttpReader(Protocol):
    """Reads resources of one server with the headers of the reader and of a request. Connections are kept."""

    async def get(self, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int) -> HttpAnswer:
        """The answer of any status for a URL of the server. Raises EndpointError and AnswerTooLargeError."""

    async def close(self) -> None:
        """Closes the connections."""


def http_reader(url: URL, name: str, headers: Mapping[str, str]) -> HttpReader:
    """A reader for the server of a URL, which errors name so."""
    if is_plain_http(str(url)):
        return PlainHttpReader(url, name, headers)
    # Deferred: most beacon nodes are reached without TLS, and aiohttp takes 0.2 s to import.
    from rollup_node.stages.io.http.https_reader import HttpsReader

    return HttpsReader(name, headers)
