"""Reads resources over HTTP, bounded in time and bytes; redirects are not followed."""

import asyncio
from collections.abc import Mapping
from typing import Protocol

from yarl import URL

from rollup_node.stages.io.endpoint_errors import AnswerTooLargeError, EndpointError, why_broken, why_not_connected
from rollup_node.stages.io.http_body import BodyEncodingError, BodyTooLargeError, read_body
from rollup_node.stages.io.plain_http import HttpAnswer, PlainHttpReader
from rollup_node.stages.io.url_schemes import is_plain_http


class HttpReader(Protocol):
    """Reads resources of one server with the headers of the reader and of a request. Connections are kept."""

    async def get(self, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int) -> HttpAnswer:
        """The answer of any status for a URL of the server. Raises EndpointError and AnswerTooLargeError."""

    async def close(self) -> None:
        """Closes the connections."""


def http_reader(url: URL, name: str, headers: Mapping[str, str]) -> HttpReader:
    """A reader for the server of a URL, which errors name so."""
    return PlainHttpReader(url, name, headers) if is_plain_http(str(url)) else TlsHttpReader(name, headers)


class TlsHttpReader:
    """The reader for HTTPS. It imports aiohttp, which takes 0.2 s, when it is used."""

    def __init__(self, name: str, headers: Mapping[str, str]) -> None:
        import aiohttp

        self._name, self._aiohttp = name, aiohttp
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def get(self, url: URL, headers: Mapping[str, str], timeout: float, max_answer: int) -> HttpAnswer:
        """The answer for a URL of the server."""
        aiohttp = self._aiohttp
        try:
            async with asyncio.timeout(timeout):
                return await self._get(url, headers, max_answer)
        except TimeoutError:
            raise EndpointError(self._name, f"no answer within {timeout:g} s") from None
        except BodyTooLargeError as failure:
            raise AnswerTooLargeError(self._name, str(failure)) from None
        except BodyEncodingError as failure:
            raise EndpointError(self._name, str(failure)) from None
        except aiohttp.ClientConnectorError as failure:
            raise EndpointError(self._name, f"cannot connect ({why_not_connected(failure.os_error)})") from None
        except (aiohttp.ClientError, OSError, ValueError) as failure:
            raise EndpointError(self._name, f"the connection failed ({why_broken(failure)})") from None

    async def _get(self, url: URL, headers: Mapping[str, str], max_answer: int) -> HttpAnswer:
        async with self._session.get(url, headers=headers, allow_redirects=False) as response:
            # Of headers that come twice, the first counts.
            found = {name.lower(): response.headers[name] for name in response.headers}
            return HttpAnswer(response.status, found, await read_body(response, max_answer))

    async def close(self) -> None:
        """Closes the connections."""
        await self._session.close()
