"""Client of `/status.json` of a running node, bounded in time and bytes."""

from types import TracebackType

import msgspec
from yarl import URL

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name
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
        self._http = HttpClient(self._url, self.name)

    async def __aenter__(self) -> "StatusClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def fetch(self) -> NodeStatus:
        """Return the status. Raises StatusError."""
        body = await self._get()
        try:
            return msgspec.json.decode(body, type=NodeStatus)
        except DECODE_ERRORS:
            raise self._error(f"answers {PATH} with something else: is the node of this version?") from None

    async def _get(self) -> bytes:
        try:
            answer = await self._http.get(URL(self._url), {}, ANSWER_SECONDS, MAX_ANSWER)
        except EndpointError as error:
            raise StatusError(f"--rpc: {error}") from None
        if answer.status == 404:
            raise self._error(f"has no {PATH}: is it the JSON-RPC of a rollup-node of this version?")
        if answer.status != 200:
            text = escaped_line(answer.body[: 4 * MAX_TEXT].decode(errors="replace").strip())[:MAX_TEXT]
            raise self._error(f"HTTP status {answer.status} for {PATH}: {text}")
        return answer.body

    def _error(self, text: str) -> StatusError:
        return StatusError(f"--rpc: {self.name}: {text}")
