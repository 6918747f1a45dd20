"""Client of `/status.json` of a running node, bounded in time and bytes."""

import asyncio
from types import TracebackType

import aiohttp
import msgspec

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.http.endpoint_errors import endpoint_name, why_broken, why_not_connected
from rollup_node.stages.io.http.http_body import BodyTooLargeError, read_body
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.stages.rpc.status import NodeStatus

PATH = "/status.json"
ANSWER_SECONDS = 5.0
MAX_ANSWER = 1 << 20
MAX_TEXT = 200


class StatusError(SetupError):
    """The node does not answer, or not with its status."""


class StatusClient:
    """Reads the status of the node at the URL of its JSON-RPC."""

    def __init__(self, url: str) -> None:
        self.name = endpoint_name(url)
        self._url = url.rstrip("/") + PATH

    async def __aenter__(self) -> "StatusClient":
        self._http = aiohttp.ClientSession(
            auto_decompress=False, headers={"Accept-Encoding": "gzip"}, cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def fetch(self) -> NodeStatus:
        """The status. Raises StatusError."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                body = await self._get()
        except TimeoutError:
            raise self._error(f"no answer within {ANSWER_SECONDS:g} s") from None
        except aiohttp.ClientConnectorError as error:
            raise self._error(f"cannot connect ({why_not_connected(error.os_error)})") from None
        except BodyTooLargeError as error:
            raise self._error(str(error)) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise self._error(f"the connection failed ({why_broken(error)})") from None
        try:
            return msgspec.json.decode(body, type=NodeStatus)
        except DECODE_ERRORS:
            raise self._error(f"answers {PATH} with something else: is the node of this version?") from None

    async def _get(self) -> bytes:
        async with self._http.get(self._url, allow_redirects=False) as response:
            body = await read_body(response, MAX_ANSWER)
        if response.status == 404:
            raise self._error(f"has no {PATH}: is it the JSON-RPC of a rollup-node of this version?")
        if response.status != 200:
            text = escaped_line(body[: 4 * MAX_TEXT].decode(errors="replace").strip())[:MAX_TEXT]
            raise self._error(f"HTTP status {response.status} for {PATH}: {text}")
        return body

    def _error(self, text: str) -> StatusError:
        return StatusError(f"--rpc: {self.name}: {text}")
