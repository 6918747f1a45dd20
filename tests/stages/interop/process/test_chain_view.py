"""What the interop process sees of a chain: a block and its L1 block, of one state of the chain [VR3]."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rollup_node.stages.interop.config import ChainEngine
from rollup_node.stages.interop.process import chain_view
from rollup_node.stages.interop.process.chain_view import AHEAD, ChainView
from rollup_node.stages.interop.rounds import NO_L1_BLOCK, ChainBlock, WaitReason
from rollup_node.stages.messages.control import L1_HISTORY_UNAVAILABLE, L1_NOT_FOUND, SafeHeadResponse
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, Hash, L2BlockRef
from tests.support.interop.values import member, numbered_content

CHAIN = member(1)
L1 = BlockId(7, b"\x07" * 32)


def hash_of(number: int, branch: int = 0) -> Hash:
    return numbered_content(number, branch).logs.block.hash


class FakeBus:
    """The engine process: `safe_head` is that of the database's entry, or its error."""

    def __init__(self) -> None:
        self.safe_head: BlockId | str | None = BlockId(100, hash_of(100))
        self.asked: list[int] = []

    def connect(self, channel: str, handler: Callable[[Any], None], *more: Any) -> "FakeBus":
        self._respond = handler
        return self

    def subscribe(self, channel: str, handler: Callable[[Any], None]) -> None:
        self.status = handler

    def send(self, request: Any) -> None:
        self.asked.append(request.number)
        if self.safe_head is None:
            return
        error = self.safe_head if isinstance(self.safe_head, str) else None
        head = self.safe_head if isinstance(self.safe_head, BlockId) else NO_L1_BLOCK
        asyncio.get_running_loop().call_soon(self._respond, SafeHeadResponse(request.id, error, L1, head))


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
    """A chain with a local safe block 100."""

    def __init__(self) -> None:
        self.bus, self.reader = FakeBus(), FakeReader()
        engine = ChainEngine(CHAIN, "http://127.0.0.1:1", b"\x42" * 32, 1.0)
        self.chain = ChainView(engine, self.bus, lambda: None)  # type: ignore[arg-type]
        self.chain.reader = self.reader  # type: ignore[assignment]
        self.publish(100)

    def publish(self, number: int | None, reset: int = 1) -> None:
        """Publish the local safe head."""
        ref = None if number is None else L2BlockRef(hash_of(number), number, ZERO_HASH, 0, L1, 0)
        self.bus.status(EngineStatus(reset, ref, ref, ref, ref, ref, False, False))


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


async def test_blocks_are_read_ahead_and_kept(view: View) -> None:
    for number in range(10, 10 + AHEAD + 1):
        result = await view.chain.observe(number)
        assert isinstance(result, ChainBlock) and (result.logs, result.l1) == (numbered_content(number).logs, L1)
    assert view.bus.asked == [10] and view.reader.reads == [(10, 9 + AHEAD), (10 + AHEAD, 9 + 2 * AHEAD)]


async def test_the_genesis_block_has_no_l1_block(view: View) -> None:
    result = await view.chain.observe(0)
    assert isinstance(result, ChainBlock) and result.l1 == NO_L1_BLOCK and view.bus.asked == []


@pytest.mark.parametrize("number", [101, -1])
async def test_a_block_that_is_not_safe_is_waited_for(view: View, number: int) -> None:
    assert await view.chain.observe(number) is WaitReason.NOT_READY
    view.publish(None)
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    assert view.bus.asked == [] and view.reader.reads == []


@pytest.mark.parametrize(
    ("error", "reason", "shown"),
    [
        (L1_NOT_FOUND, WaitReason.NOT_READY, ""),
        (L1_HISTORY_UNAVAILABLE, WaitReason.NO_HISTORY, ""),
        ("safe head database not enabled", WaitReason.NOT_READY, "safe head database not enabled"),
    ],
)
async def test_what_the_database_does_not_know(view: View, error: str, reason: WaitReason, shown: str) -> None:
    view.bus.safe_head = error
    assert await view.chain.observe(50) is reason and view.chain.error == shown


@pytest.mark.parametrize("last", [60, 100])
async def test_blocks_of_another_state_than_their_l1_block_are_not_used(view: View, last: int) -> None:
    """The chain goes to another branch after the database has answered, and is read again."""
    view.bus.safe_head, view.reader.changed = BlockId(last, hash_of(last)), 40
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    view.bus.safe_head = BlockId(last, hash_of(last, 1))
    result = await view.chain.observe(50)
    assert isinstance(result, ChainBlock) and result.logs == numbered_content(50, 1).logs


@pytest.mark.parametrize("event", ["reset", "search", "forget"])
async def test_after_a_start_all_is_read_again(view: View, event: str) -> None:
    await view.chain.observe(50)
    match event:
        case "reset":
            view.publish(100, reset=2)
        case "search":
            view.publish(None)
            view.publish(100)
        case "forget":
            view.chain.forget()
    await view.chain.observe(50)
    assert view.bus.asked == [50, 50] and len(view.reader.reads) == 2


async def test_heads_that_rise_leave_what_is_read(view: View) -> None:
    await view.chain.observe(50)
    view.publish(120)
    await view.chain.observe(51)
    assert view.bus.asked == [50] and len(view.reader.reads) == 1


async def test_errors_are_kept_for_the_operator(view: View, monkeypatch: pytest.MonkeyPatch) -> None:
    view.reader.error = "execution engine: away"
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    assert view.chain.error == "execution engine: away"
    view.reader.error, view.bus.safe_head = "", None
    monkeypatch.setattr(chain_view, "PATIENCE_SECONDS", 0.02)
    view.chain.forget()
    assert await view.chain.observe(50) is WaitReason.NOT_READY
    assert view.chain.error == "its engine process does not answer"


def test_the_last_transition_is_that_of_this_life(view: View) -> None:
    status = view.chain.status
    assert view.chain.transition == 0 and status is not None
    view.bus.status(msgspec.structs.replace(status, transition=5))
    assert view.chain.transition == 5
