"""One GET of a check."""

import time
from collections.abc import Mapping
from typing import NamedTuple

from yarl import URL

from rollup_node.stages.io.http.client import HttpClient


class Answer(NamedTuple):
    """The answer of a server; `sent` and `received` are the times of request and answer, seconds since 1970.

    The names of `headers` are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]
    sent: float
    received: float


async def http_get(name: str, address: URL, headers: Mapping[str, str], timeout: float, limit: int) -> Answer:
    """Return the answer to a request of at most `timeout` seconds, with a body of at most `limit` bytes.

    Raises EndpointError, in which the endpoint goes by `name`."""
    client = HttpClient(address, name, lambda: headers)
    sent = time.time()
    try:
        status, answered, body = await client.get(address, {}, timeout, limit)
        return Answer(status, body, answered, sent, time.time())
    finally:
        await client.close()
