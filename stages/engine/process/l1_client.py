"""What the engine process reads of L1.

Blocks and references by number from the l1 process, requested until they arrive."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

REPEAT_SECONDS = 0.6
PATIENCE_SECONDS = 10.0
BATCHES = (1, 16, 128)
"""How many references are requested at once: more, the longer a search walks down."""
MAX_REFS = 8192


class L1Client:
    """The client of `l1.origins`. `on_block` takes each block that was requested."""

    def __init__(
        self, bus: Bus, on_block: Callable[[L1BlockResponse], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._on_block, self._clock = on_block, clock
        self._refs: dict[int, L1BlockRef] = {}
        self._lowest = self._pace = 0
        self._missing: dict[int, L1RefsResponse] = {}
        self._arrival = asyncio.Event()
        self._wanted: tuple[int, int] = (0, 0)
        self._requested_at = 0.0
        self._client = bus.connect("l1.origins", self._take)

    async def ref(self, number: int, fresh: bool = False) -> L1BlockRef | None:
        """Return the canonical L1 block of a number, None if there is none yet.

        With `fresh`, what was read before is forgotten first, since L1 may have had a reorg. Raises TemporaryError when
        the l1 process cannot answer."""
        if fresh:
            self._refs.clear()
            self._missing.clear()
        began, requested_at = self._clock(), float("-inf")
        self._missing.pop(number, None)
        if number not in self._refs:
            self._pace = min(self._pace + 1, len(BATCHES) - 1) if number == self._lowest - 1 else 0
        while (result := self._refs.get(number)) is None:
            missing = self._missing.pop(number, None)
            if missing is not None:
                if missing.error is None:
                    return None
                raise TemporaryError(f"L1 block {number} is unavailable: {missing.error.text}", missing.error.code)
            now = self._clock()
            if now - began > PATIENCE_SECONDS:
                text = f"L1 block {number} is unavailable: the l1 process does not answer"
                raise TemporaryError(text, Code.PROCESS_SILENT)
            if now - requested_at >= REPEAT_SECONDS:
                requested_at = now
                self._client.send(L1RefsRequest(number, BATCHES[self._pace]))
            await self._wait()
        return result

    def request(self, first: int, count: int) -> None:
        """Request blocks: at once if they are others than before, else at most every REPEAT_SECONDS."""
        now = self._clock()
        if (first, count) != self._wanted or now - self._requested_at >= REPEAT_SECONDS:
            self._wanted, self._requested_at = (first, count), now
            self._client.send(L1BlocksRequest(first, count))

    async def _wait(self) -> None:
        self._arrival.clear()
        try:
            async with asyncio.timeout(REPEAT_SECONDS):
                await self._arrival.wait()
        except TimeoutError:
            pass

    def _take(self, message: Any) -> None:
        if isinstance(message, L1RefsResponse):
            self._take_refs(message)
        elif isinstance(message, L1BlockResponse):
            first, count = self._wanted
            if first <= message.block.header.number < first + count:
                self._on_block(message)

    def _take_refs(self, found: L1RefsResponse) -> None:
        if len(self._refs) + len(found.refs) > MAX_REFS:
            self._refs.clear()
        self._refs.update({ref.number: ref for ref in found.refs})
        self._lowest = found.last - len(found.refs) + 1
        if not found.refs or found.error is not None:
            self._missing[found.last] = found
        self._arrival.set()
