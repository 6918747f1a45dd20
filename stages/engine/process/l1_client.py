"""What the engine reads of L1: blocks and references by number from the l1 process, asked for until they come."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.engine.core.origin_selector import L1Window
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

AGAIN = 0.6
PATIENCE = 10.0
WALK = (1, 16, 128)
"""How many references are asked for at once: more, the longer a search walks down."""
KEPT_REFS = 8192


class OriginsClient:
    """Answers `ref` for searches and checks, and fills the sequencer's window, which `on_block` is told."""

    def __init__(self, bus: Bus, window: L1Window, on_block: Callable[[], None]) -> None:
        self._window = window
        self._on_block = on_block
        self._refs: dict[int, L1BlockRef] = {}
        self._lowest = self._pace = 0
        self._answer: L1RefsResponse | None = None
        self._news = asyncio.Event()
        self._wanted: tuple[int, int] = (0, 0)
        self._asked_at = 0.0
        self._client = bus.connect("l1.origins", self._take)

    def forget(self) -> None:
        """What was heard counts no more: L1 may have moved."""
        self._refs.clear()

    async def ref(self, number: int) -> L1BlockRef | None:
        """The canonical L1 block of a number, None if there is none yet; TemporaryError if l1 cannot say."""
        began, asked_at = time.monotonic(), float("-inf")
        self._answer = None
        if number not in self._refs:
            self._pace = min(self._pace + 1, len(WALK) - 1) if number == self._lowest - 1 else 0
        while (found := self._refs.get(number)) is None:
            answer, self._answer = self._answer, None
            if answer is not None and answer.last == number:
                if answer.error is None:
                    return None
                raise TemporaryError(f"L1 block {number} cannot be had: {answer.error}")
            now = time.monotonic()
            if now - began > PATIENCE:
                raise TemporaryError(f"L1 block {number} cannot be had: the l1 process does not answer")
            if now - asked_at >= AGAIN:
                asked_at = now
                self._client.send(L1RefsRequest(number, WALK[self._pace]))
            await self._wait()
        return found

    def want(self, first: int, count: int) -> None:
        """The blocks that the sequencer is missing; sent at once if they are others than before, else each second."""
        now = time.monotonic()
        if count and ((first, count) != self._wanted or now - self._asked_at >= AGAIN):
            self._wanted, self._asked_at = (first, count), now
            self._client.send(L1BlocksRequest(first, count))

    async def _wait(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(AGAIN):
                await self._news.wait()
        except TimeoutError:
            pass

    def _take(self, message: Any) -> None:
        if isinstance(message, L1RefsResponse):
            self._take_refs(message)
        elif isinstance(message, L1BlockResponse):
            first, count = self._wanted
            if first <= message.block.header.number < first + count:
                self._window.note_block(message.block)
                self._on_block()

    def _take_refs(self, found: L1RefsResponse) -> None:
        if len(self._refs) + len(found.refs) > KEPT_REFS:
            self._refs.clear()
        self._refs.update({ref.number: ref for ref in found.refs})
        self._lowest = found.last - len(found.refs) + 1
        self._answer = found
        self._news.set()
