"""Reads resources over HTTPS by aiohttp, whose import takes 0.2 s."""

import asyncio
from collections.abc import Mapping

import aiohttp
from yarl import URL

from rollup_node.stages.io.http.aiohttp_errors import endpoint_errors
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.http.http_body import read_body
from rollup_node.stages.io.http.plain_http import HttpAnswer


class HttpsReader:
    """An HttpReader (see http_reader)."""

    def __init__(self, name: str, headers: Mapping[str, str]) -> None:
        self._name = name
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def get(self, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int) -> HttpAnswer:
        """The answer for a URL of the server."""
        with endpoint_errors(self._name):
            try:
                async with asyncio.timeout(timeout):
                    return await self._get(url, headers, max_answer)
            except TimeoutError:
                raise EndpointError(self._name, f"no answer within {timeout:g} s") from None

    async def _get(self, url: URL, headers: Mapping[str, str], max_answer: int) -> HttpAnswer:
        async with self._session.get(url, headers=headers, allow_redirects=False) as response:
            # Of headers that come twice, the first counts.
            found = {name.lower(): response.headers[name] for name in response.headers}
            return HttpAnswer(response.status, found, await read_body(response, max_answer))

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()
