"""Client of `/status.json` of a running node, bounded in time and bytes."""

from types import TracebackType

import msgspec
from yarl import URL

from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name
from rollup_node.stages.protocol.errors import DECODE_ERRORS
from rollup_node.stages.protocol.texts import duration, escaped_line
from rollup_node.stages.rpc.status.node_status import NodeStatus

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


FIRST_NOTICE = 15.0
NOTICE_INTERVAL = 60.0


class Patience:
    """The time since the last progress. `timeout` in seconds, None for none; times are of a monotonic clock."""

    def __init__(self, timeout: float | None, now: float) -> None:
        self._timeout = timeout
        self._since = now
        self._next_notice = now + FIRST_NOTICE

    def progress(self, now: float) -> None:
        """Begins again."""
        self._since, self._next_notice = now, now + FIRST_NOTICE

    def is_over(self, now: float) -> bool:
        """Whether the timeout has passed."""
        return self._timeout is not None and now - self._since > self._timeout

    def notice(self, now: float, reason: str) -> str:
        """Return the line for the operator when one is due, else nothing."""
        if now < self._next_notice:
            return ""
        self._next_notice = now + NOTICE_INTERVAL
        return f"{PROGRAM}: waiting for {duration(now - self._since)}: {reason}\n"
