"""L1's chain as the l1 process sees it: hashes by number, and the finalized block [VR4]."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.interop.rounds import L1View
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import L1Heads, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import Hash, L1BlockRef

REPEAT_SECONDS = 0.6
PATIENCE_SECONDS = 10.0
MAX_KNOWN = 4096


class L1Reader:
    """Asks for each block once as long as L1's chain only grows, so that rounds cost L1 next to nothing.

    `finalized` is the number of the finalized block, which begins with the one given and never goes back. `on_change`
    is called when the head or that changes."""

    def __init__(self, bus: Bus, finalized: int, on_change: Callable[[], None]) -> None:
        self.finalized, self._on_change = finalized, on_change
        self._head: L1BlockRef | None = None
        self._known: dict[int, Hash] = {}
        self._asked: dict[int, asyncio.Future[L1RefsResponse]] = {}
        self._client = bus.connect("l1.origins", self._on_refs)
        bus.subscribe("status.l1", self._on_status)

    def known(self, numbers: Collection[int]) -> L1View:
        """Return what `view` would, without the hashes that it would ask for."""
        return L1View({number: self._known.get(number) for number in numbers}, self.finalized)

    async def view(self, numbers: Collection[int], *, fresh: bool = False) -> L1View:
        """Return the hashes of blocks by number; `fresh` asks for all of them. Raises TemporaryError."""
        if fresh:
            self._known.clear()
        missing = [number for number in numbers if number not in self._known]
        head = self._head
        read = dict(zip(missing, await asyncio.gather(*map(self._hash, missing)), strict=True))
        hashes = self.known(numbers).hashes | read
        if head is not None and head == self._head:
            known = {number: hashed for number, hashed in read.items() if hashed is not None}
            self._keep({number: hashed for number, hashed in known.items() if number < head.number})
        return L1View(hashes, self.finalized)

    def _keep(self, hashes: dict[int, Hash]) -> None:
        if len(self._known) + len(hashes) > MAX_KNOWN:
            self._known.clear()
        self._known |= hashes

    async def _hash(self, number: int) -> Hash | None:
        """Return the hash of one block, None if L1 has none of that number."""
        response = self._asked.get(number)
        if response is None:
            response = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not response.done():
                    self._client.send(L1RefsRequest(number, 1))
                    await asyncio.wait((response,), timeout=REPEAT_SECONDS)
        except TimeoutError:
            text = f"L1 block {number} is unavailable: the l1 process does not answer"
            raise TemporaryError(text, Code.PROCESS_SILENT) from None
        finally:
            self._asked.pop(number, None)
        answer = response.result()
        if answer.error is not None:
            raise TemporaryError(f"L1 block {number} is unavailable: {answer.error.text}", answer.error.code)
        return answer.refs[-1].hash if answer.refs else None

    def _on_refs(self, message: Any) -> None:
        if isinstance(message, L1RefsResponse):
            response = self._asked.get(message.last)
            if response is not None and not response.done():
                response.set_result(message)

    def _on_status(self, message: Any) -> None:
        if not isinstance(message, L1Heads):
            return
        if message.head != self._head:
            head, before = message.head, self._head
            if head is None or before is None or head.parent_hash != before.hash:
                self._known.clear()
            if head is not None:
                self._keep({head.number: head.hash})
            self._head = head
        if message.finalized is not None:
            self.finalized = max(self.finalized, message.finalized.number)
        self._on_change()
