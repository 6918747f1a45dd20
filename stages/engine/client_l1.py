"""What the engine reads of L1: single blocks by number from the l1 process, asked for again until they come."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from rollup_node.ipc.bus import Bus
from rollup_node.stages.engine.origin_selector import L1Window
from rollup_node.stages.messages import L1BlockFound, L1BlockMissing, WantL1Blocks
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import L1BlockRef

AGAIN = 0.6
PATIENCE = 10.0
BEHIND = 15
KEPT_REFS = 8192


class OriginsClient:
    """Answers `ref` for searches and checks, and fills the sequencer's window, which `on_block` is told. `behind`
    blocks below the one asked for come along, as searches walk down."""

    def __init__(self, bus: Bus, window: L1Window, on_block: Callable[[], None], behind: int = BEHIND) -> None:
        self._behind = behind
        self._window = window
        self._on_block = on_block
        self._refs: dict[int, L1BlockRef] = {}
        self._missing: L1BlockMissing | None = None
        self._news = asyncio.Event()
        self._wanted: tuple[int, int] = (0, 0)
        self._asked_at = 0.0
        self._client = bus.connect("l1.origins", self._take)

    def forget(self) -> None:
        """What was heard counts no more: L1 may have moved."""
        self._refs.clear()
        self._missing = None

    async def ref(self, number: int) -> L1BlockRef | None:
        """The canonical L1 block of a number, None if there is none yet; TemporaryError if l1 cannot say."""
        began, asked_at = time.monotonic(), float("-inf")
        self._missing = None
        while (found := self._refs.get(number)) is None:
            missing, self._missing = self._missing, None
            if missing is not None and missing.number <= number:
                if missing.problem is None:
                    return None
                raise TemporaryError(f"L1 block {number} cannot be had: {missing.problem}")
            now = time.monotonic()
            if now - began > PATIENCE:
                raise TemporaryError(f"L1 block {number} cannot be had: the l1 process does not answer")
            if now - asked_at >= AGAIN:
                asked_at, first = now, max(0, number - self._behind)
                self._client.send(WantL1Blocks(first, number - first + 1))
            await self._wait()
        return found

    def want(self, first: int, count: int) -> None:
        """The blocks that the sequencer is missing; sent at once if they are others than before, else each second."""
        now = time.monotonic()
        if count and ((first, count) != self._wanted or now - self._asked_at >= AGAIN):
            self._wanted, self._asked_at = (first, count), now
            self._client.send(WantL1Blocks(first, count))

    async def _wait(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(AGAIN):
                await self._news.wait()
        except TimeoutError:
            pass

    def _take(self, message: Any) -> None:
        if isinstance(message, L1BlockFound):
            ref = message.block.ref
            if len(self._refs) >= KEPT_REFS:
                self._refs.clear()
            self._refs[ref.number] = ref
            first, count = self._wanted
            if first <= ref.number < first + count:
                self._window.note_block(message.block)
                self._on_block()
        elif isinstance(message, L1BlockMissing):
            self._missing = message
        self._news.set()
