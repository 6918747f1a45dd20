"""A relay to a real engine: it passes bytes both ways, and watches the calls of a race."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson

from rollup_node.tools.bench.race.call_clock import CallClock
from rollup_node.tools.bench.race.course_files import CourseFiles
from rollup_node.tools.bench.race.engine import CourseAttributes
from rollup_node.tools.bench.race.http_server import message_body, message_end

_METHOD = re.compile(rb'"method"\s*:\s*"(\w+)"')
_FORKCHOICE = "engine_forkchoiceUpdated"


class EngineRelay:
    """What the calls to the engine at `url` say of the race.

    `on_attributes` is called for the first attributes, `on_mismatch` for each that are not the course's, with the
    fields that differ, `on_safe` when the engine has answered that the course's last block is safe."""

    def __init__(
        self,
        course: CourseFiles,
        url: str,
        clock: CallClock,
        on_attributes: Callable[[], None],
        on_mismatch: Callable[[str], None],
        on_safe: Callable[[], None],
    ) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 80
        self.calls: Counter[str] = Counter()
        self._clock = clock
        self._on_attributes, self._on_mismatch, self._on_safe = on_attributes, on_mismatch, on_safe
        self._attributes = CourseAttributes(course)
        self._numbers = {name: number for number, name in enumerate(course.facts.l2_hashes)}
        self._last_safe = course.facts.last_safe
        self._begun = self._done = False

    def opened(self, body: bytes) -> bool:
        """Note a request; returns whether it makes the course's last block safe."""
        self._clock.opened()
        names = [name.decode() for name in _METHOD.findall(body)]
        self.calls.update(names)
        if len(names) != 1 or not names[0].startswith(_FORKCHOICE):
            return False
        state, *attributes = orjson.loads(body)["params"]
        if attributes and attributes[0] is not None:
            self._begin(state["headBlockHash"], attributes[0])
        return bool(state["safeBlockHash"] == self._last_safe)

    def closed(self, makes_last_safe: bool) -> None:
        """Note the answer."""
        self._clock.closed()
        if makes_last_safe and not self._done:
            self._done = True
            self._on_safe()

    def _begin(self, head: str, attributes: dict[str, Any]) -> None:
        if not self._begun:
            self._begun = True
            self._on_attributes()
        difference = self._attributes.difference(self._numbers.get(head), attributes)
        if difference is not None:
            self._on_mismatch(difference)


class RelayConnection(asyncio.Protocol):
    """A connection of the node, and one to the engine for it."""

    def __init__(self, relay: EngineRelay) -> None:
        self._relay = relay
        self._node: asyncio.Transport | None = None
        self._engine: asyncio.Transport | None = None
        self._waiting: list[bytes] = []
        self._asked = self._answered = b""
        self._is_last: list[bool] = []
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the engine."""
        assert isinstance(transport, asyncio.Transport)
        self._node = transport
        self._task = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: _EngineSide(self), self._relay.host, self._relay.port)
        except OSError:
            self.ended()

    def connected(self, transport: asyncio.Transport) -> None:
        """Send what has come before."""
        self._engine = transport
        transport.writelines(self._waiting)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        """Pass data on to the engine, after its requests are noted."""
        self._asked += data
        while (end := message_end(self._asked)) is not None:
            self._is_last.append(self._relay.opened(message_body(self._asked[:end])))
            self._asked = self._asked[end:]
        if self._engine is None:
            self._waiting.append(data)
        else:
            self._engine.write(data)

    def answered(self, data: bytes) -> None:
        """Pass data on to the node, and note the answers."""
        if self._node is not None:
            self._node.write(data)
        self._answered += data
        while self._is_last and (end := message_end(self._answered)) is not None:
            self._answered = self._answered[end:]
            self._relay.closed(self._is_last.pop(0))

    def connection_lost(self, exc: Exception | None) -> None:
        """End both connections, and the calls that are open."""
        self.ended()

    def ended(self) -> None:
        """End both connections, and the calls that are open."""
        for transport in (self._node, self._engine):
            if transport is not None:
                transport.close()
        self._node = self._engine = None
        while self._is_last:
            self._is_last.pop()
            self._relay.closed(False)


class _EngineSide(asyncio.Protocol):
    def __init__(self, node: RelayConnection) -> None:
        self._node = node

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._node.connected(transport)

    def data_received(self, data: bytes) -> None:
        self._node.answered(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._node.ended()
