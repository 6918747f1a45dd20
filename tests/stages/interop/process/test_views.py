"""What the interop process sees of a chain: a block and its L1 block, of one state of the chain [VR3]."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process import views
from rollup_node.stages.interop.process.views import AHEAD, ChainView, L1Reader
from rollup_node.stages.interop.rounds import NO_L1_BLOCK, ChainBlock, WaitReason
from rollup_node.stages.messages.control import (
    L1_HISTORY_UNAVAILABLE,
    L1_NOT_FOUND,
    L1AtSafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Hash, L1BlockRef, L2BlockRef
from tests.support.interop.values import member, numbered_content

CHAIN = member(1)
L1 = BlockId(7, b"\x07" * 32)


def hash_of(number: int, branch: int = 0) -> Hash:
    return numbered_content(number, branch).logs.block.hash


class FakeBus:
    """The process at the other end of a channel: `answer` makes the response to a request, None for none.

    `asked` are the requests, `publish` takes the process's status."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self.answer = answer
        self.asked: list[Any] = []

    def connect(self, channel: str, handler: Callable[[Any], None]) -> "FakeBus":
        self._respond = handler
        return self

    def subscribe(self, channel: str, handler: Callable[[Any], None]) -> None:
        self.publish = handler

    def send(self, request: Any) -> None:
        self.asked.append(request)
        if (response := self.answer(request)) is not None:
            asyncio.get_running_loop().call_soon(lambda: self._respond(response))


class FakeReader:
    """The engine, whose blocks from `changed` on are of another branch; `reads` are the ranges read."""

    def __init__(self) -> None:
        self.reads: list[tuple[int, int]] = []
        self.changed, self.error = 10**9, ""

    async def blocks(self, first: int, last: int) -> list[Any]:
        self.reads.append((first, last))
        if self.error:
            raise TemporaryError(self.error)
        return [numbered_content(number, number >= self.changed) for number in range(first, last + 1)]

    async def block_hash(self, number: int) -> Hash:
        return hash_of(number, number >= self.changed)


class View:
    """A chain with a local safe block 100. `safe_head` is that of the database's entry, or its error."""

    def __init__(self) -> None:
        self.safe_head: BlockId | str | None = BlockId(100, hash_of(100))
        self.bus, self.reader = FakeBus(self._answer), FakeReader()
        engine = ChainEngine("http://127.0.0.1:1", b"\x42" * 32, 1.0)
        self.chain = ChainView(engine, CHAIN.genesis.l2, self.bus, lambda: None)  # type: ignore[arg-type]
        self.chain.reader = self.reader  # type: ignore[assignment]
        self.publish(100)

    def publish(self, number: int | None, reset: int = 1) -> None:
        """Publish the local safe head."""
        ref = None if number is None else L2BlockRef(hash_of(number), number, ZERO_HASH, 0, L1, 0)
        self.bus.publish(EngineStatus(reset, ref, ref, ref, ref, ref, False, False))

    def _answer(self, request: L1AtSafeHeadRequest) -> SafeHeadResponse | None:
        if isinstance(self.safe_head, str):
            return SafeHeadResponse(request.id, self.safe_head, L1, NO_L1_BLOCK)
        return None if self.safe_head is None else SafeHeadResponse(request.id, None, L1, self.safe_head)


@pytest.fixture
def view() -> View:
    return View()


async def test_what_is_read_is_known_at_once(view: View) -> None:
    """[VR6]: until the chain is another one, or its safe head is below."""
    assert view.chain.known(10) is WaitReason.NOT_READY
    block = await view.chain.observe(10)
    assert view.chain.known(10) == block
    assert isinstance(view.chain.known(10 + AHEAD - 1), ChainBlock) and view.chain.known(9) is WaitReason.NOT_READY
    assert view.chain.known(10 + AHEAD) is WaitReason.NOT_READY
    view.publish(10)
    assert view.chain.known(10) == block and view.chain.known(11) is WaitReason.NOT_READY
    view.publish(100, reset=2)
    assert view.chain.known(10) is WaitReason.NOT_READY


async def test_the_genesis_block_has_no_l1_block(view: View) -> None:
    result = await view.chain.observe(0)
    assert isinstance(result, ChainBlock) and result.l1 == NO_L1_BLOCK and view.bus.asked == []


@pytest.mark.parametrize(
    ("error", "reason", "shown"),
    [
        (L1_NOT_FOUND, WaitReason.NOT_READY, ""),
        (L1_HISTORY_UNAVAILABLE, WaitReason.NO_HISTORY, ""),
        ("safe head database not enabled", WaitReason.NOT_READY, "safe head database not enabled"),
    ],
)
async def test_what_the_database_does_not_know(view: View, error: str, reason: WaitReason, shown: str) -> None:
    view.safe_head = error
    assert await view.chain.observe(50) is reason and view.chain.error == shown


@pytest.mark.parametrize("last", [60, 100])
async def test_blocks_of_another_state_than_their_l1_block_are_not_used(view: View, last: int) -> None:
    """The chain goes to another branch after the database has answered, and is read again."""
    view.safe_head, view.reader.changed = BlockId(last, hash_of(last)), 40
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    assert view.chain.known(50) is WaitReason.NOT_READY
    view.safe_head = BlockId(last, hash_of(last, 1))
    result = await view.chain.observe(50)
    assert isinstance(result, ChainBlock) and result.logs == numbered_content(50, 1).logs


async def test_errors_are_kept_for_the_operator(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    view.reader.error = "execution engine: away"
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    assert view.chain.error == "execution engine: away"
    view.reader.error, view.safe_head = "", None
    monkeypatch.setattr(views, "PATIENCE_SECONDS", 0.02)
    view.chain.forget()
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    assert view.chain.error == "its engine process does not answer"


def ref(number: int, branch: int = 0) -> L1BlockRef:
    """Return a block of L1; a branch begins above block 10."""
    return L1BlockRef(_hash(number, branch), number, _hash(number - 1, branch), number)


def _hash(number: int, branch: int) -> bytes:
    return bytes([branch if number > 10 else 0]) * 28 + number.to_bytes(4, "big")


def refs_of(branch: int = 0, last: int = 100) -> Callable[[L1RefsRequest], L1RefsResponse]:
    """Return the answers of an l1 process on a branch, which has blocks up to one."""
    return lambda request: L1RefsResponse(
        request.last, (ref(request.last, branch),) if request.last <= last else (), None
    )


@pytest.fixture
def bus() -> FakeBus:
    return FakeBus(refs_of())


def numbers(bus: FakeBus) -> list[int]:
    """Return the numbers that were asked for."""
    return [request.last for request in bus.asked]


def reader_of(bus: FakeBus) -> L1Reader:
    """Return a reader that knows block 20 as the head."""
    result = L1Reader(bus, lambda: None)  # type: ignore[arg-type]
    bus.publish(L1Heads(ref(20), None, None))
    return result


async def test_a_block_is_asked_for_once(bus: FakeBus) -> None:
    reader = reader_of(bus)
    assert reader.known([15, 20]) == {15: None, 20: ref(20).hash}
    assert (await reader.hashes([15, 18])) == {15: ref(15).hash, 18: ref(18).hash}
    bus.publish(L1Heads(ref(21), None, None))
    assert (await reader.hashes([15, 18, 20, 21]))[21] == ref(21).hash
    assert numbers(bus) == [15, 18], "heads are known without asking"
    assert reader.known([15, 21]) == {15: ref(15).hash, 21: ref(21).hash}


@pytest.mark.parametrize("head", [ref(21, 1), ref(22), ref(19), None])
async def test_after_another_change_all_are_asked_for_again(bus: FakeBus, head: L1BlockRef | None) -> None:
    reader = reader_of(bus)
    await reader.hashes([15])
    bus.answer = refs_of(branch=1)
    bus.publish(L1Heads(head, None, None))
    assert (await reader.hashes([15])) == {15: ref(15, 1).hash}


async def test_a_fresh_view_asks_for_all(bus: FakeBus) -> None:
    reader = reader_of(bus)
    await reader.hashes([15, 20])
    bus.answer = refs_of(branch=1)
    assert (await reader.hashes([15, 20], fresh=True)) == {15: ref(15, 1).hash, 20: ref(20, 1).hash}


async def test_what_l1_changes_meanwhile_is_not_kept(bus: FakeBus) -> None:
    reader = reader_of(bus)

    def answer(request: L1RefsRequest) -> L1RefsResponse:
        bus.publish(L1Heads(ref(21, 1), None, None))
        return refs_of()(request)

    bus.answer = answer
    await reader.hashes([15])
    bus.answer = refs_of(branch=1)
    assert (await reader.hashes([15])) == {15: ref(15, 1).hash}


async def test_blocks_above_the_head_and_missing_ones_are_not_kept(bus: FakeBus) -> None:
    """Also all of them where the head is not polled."""
    reader = reader_of(bus)
    bus.answer = refs_of(last=29)
    for _ in range(2):
        assert (await reader.hashes([25, 30])) == {25: ref(25).hash, 30: None}
    assert numbers(bus) == [25, 30] * 2
    bus.publish(L1Heads(None, None, None))
    for _ in range(2):
        await reader.hashes([15])
    assert numbers(bus)[4:] == [15, 15]


async def test_the_finalized_block_counts_on_the_chain_of_the_hashes_alone(bus: FakeBus) -> None:
    """[LB4, FIN9]: it is asked for once, and forgotten with the l1 process."""
    reader = reader_of(bus)
    for finalized, wanted in ((ref(14), 14), (ref(13), 13), (ref(15, 1), 0), (None, 0)):
        bus.publish(L1Heads(ref(20), None, finalized))
        assert reader.final == 0, "not before it was found"
        for _ in range(2):
            await reader.hashes([12])
            assert reader.final == wanted
    assert numbers(bus) == [12, 14, 13, 15]


async def test_a_finalized_block_that_is_forgotten_while_it_is_looked_up_does_not_count(bus: FakeBus) -> None:
    """[LB4, LCP16]"""
    reader = reader_of(bus)
    bus.publish(L1Heads(ref(20), None, ref(14)))

    def answer(request: L1RefsRequest) -> L1RefsResponse:
        bus.publish(L1Heads(ref(20), None, None))
        return refs_of()(request)

    bus.answer = answer
    await reader.hashes([12])
    assert reader.final == 0


async def test_what_is_known_is_bounded(bus: FakeBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "MAX_KNOWN", 5)
    reader = reader_of(bus)
    for number in range(5, 20):
        await reader.hashes([number])
    assert len(reader._known) <= 5
