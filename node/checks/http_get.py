"""One GET of a check: it imports aiohttp, which the checks that need it do once they run."""

import asyncio
import time
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from yarl import URL

from rollup_node.stages.io.endpoint_errors import EndpointError, why_broken, why_not_connected
from rollup_node.stages.io.http_body import BodyEncodingError, BodyTooLargeError, read_body


class Answer(NamedTuple):
    """The answer of a server; `sent` and `received` are the times of request and headers, seconds since 1970."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    sent: float
    received: float


async def http_get(name: str, address: URL, headers: Mapping[str, str], timeout: float, limit: int) -> Answer:
    """The answer to a request of at most `timeout` seconds, with a body of at most `limit` bytes; redirects are not
    followed. Raises EndpointError, in which the endpoint goes by `name`."""
    try:
        async with asyncio.timeout(timeout):
            return await _exchange(address, headers, limit)
    except TimeoutError:
        raise EndpointError(name, "timeout") from None
    except (BodyTooLargeError, BodyEncodingError) as failure:
        raise EndpointError(name, str(failure)) from None
    except aiohttp.ClientConnectorError as failure:
        raise EndpointError(name, f"cannot connect ({why_not_connected(failure.os_error)})") from None
    except (aiohttp.ClientError, OSError, ValueError) as failure:
        raise EndpointError(name, f"the connection failed ({why_broken(failure)})") from None


async def _exchange(address: URL, headers: Mapping[str, str], limit: int) -> Answer:
    session = aiohttp.ClientSession(
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
    )
    sent = time.time()
    async with session, session.get(address, allow_redirects=False) as response:
        received = time.time()
        return Answer(response.status, await read_body(response, limit), response.headers, sent, received)
