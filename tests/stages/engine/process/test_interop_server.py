"""A supervisor's calls to the engine process, with op-node's results and errors [IOP5 to IOP20]."""

import asyncio
from typing import Any, TypeVar

import msgspec
import pytest

from rollup_node.stages.engine.process.interop_server import (
    MAX_CALLS,
    MAX_RECEIPTS,
    MAX_RESPONSES,
    InteropError,
    replaced_output,
    replacement_attributes,
)
from rollup_node.stages.engine.process.reads import Reader
from rollup_node.stages.messages.control import OutputRequest, OutputResponse
from rollup_node.stages.messages.interop import InteropEvents, InteropEventsRequest, InteropRequest, InteropResponse
from rollup_node.stages.protocol.block_refs import l2_ref_object, ref_object
from rollup_node.stages.protocol.deposits import decode_deposit, is_deposit
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import output_preimage, output_root
from rollup_node.stages.protocol.types import ZERO_ADDRESS, BlockId
from tests.stages.engine.conftest import RunOn
from tests.stages.engine.core.test_interop import FORKS
from tests.support.chains.chain_fixture import ChainFixture, chain_with
from tests.support.engine.engine_node import EngineNode, follow
from tests.support.engine.fake_engine import EngineFailure, FakeExecutionEngine, SlowEngine

ABSENT = BlockId(9, b"\x99" * 32)
NOT_FOUND = f"failed to determine block-hash of hash {to_hex(ABSENT.hash)}, could not get payload: not found"


@pytest.fixture
def chain() -> ChainFixture:
    return chain_with(FORKS)


A = TypeVar("A", InteropEvents, InteropResponse)


def received(node: EngineNode, kind: type[A]) -> list[A]:
    """Return the messages of a kind that rpc has received."""
    return [message for message in node.interop_messages if isinstance(message, kind)]


def result(response: InteropResponse) -> Any:
    assert response.error is None, response.error
    return msgspec.json.decode(response.result)


def error(response: InteropResponse) -> tuple[int, str | None]:
    return response.code, response.error


async def test_reads(chain: ChainFixture, engine: FakeExecutionEngine, run_on: RunOn) -> None:
    refs = follow(chain, engine, 3)
    engine.answers["eth_getBlockReceipts"] = [[{"status": "0x1"}], None, EngineFailure(-32000, "busy")]
    payload = chain.payloads[refs[2].hash]
    assert payload.withdrawals_root is not None
    shown = {
        "stateRoot": to_hex(payload.state_root),
        "messagePasserStorageRoot": to_hex(payload.withdrawals_root),
        "blockHash": to_hex(refs[2].hash),
    }
    assert output_root(payload.state_root, payload.withdrawals_root, refs[2].hash)
    async with run_on(engine)(interop=True) as node:
        at = refs[2].timestamp
        for method, number in (("l2BlockRefByNumber", 2), ("l2BlockRefByTimestamp", at + 1)):
            assert result(await node.supervise(method, number=number)) == l2_ref_object(refs[2])
        for method in ("outputV0AtTimestamp", "pendingOutputV0AtTimestamp"):
            assert result(await node.supervise(method, number=at)) == shown
        anchor = result(await node.supervise("anchorPoint"))
        assert anchor["source"] == ref_object(chain.l1_ref(100)) and anchor["derived"]["number"] == 0
        receipts = await node.supervise("fetchReceipts", blocks=(refs[2].id,))
        assert result(receipts) == [{"status": "0x1"}]
        assert error(await node.supervise("fetchReceipts", blocks=(ABSENT,))) == (-32000, "querying block: not found")
        assert "busy" in str((await node.supervise("fetchReceipts", blocks=(ABSENT,))).error)
        text = "failed to determine L2BlockRef of height 9, could not get payload: not found"
        assert error(await node.supervise("l2BlockRefByNumber", number=9)) == (-32000, text)
        text = f"did not reach genesis time ({chain.rollup.genesis.l2_time}) yet"
        assert error(await node.supervise("outputV0AtTimestamp", number=1)) == (-32000, text)
        assert "no method" in str((await node.supervise("other")).error)


@pytest.mark.parametrize(
    ("said", "has_block", "text"), [("busy", True, "busy"), ("busy", False, "busy"), (None, False, "not found")]
)
async def test_an_output_with_an_error_or_without_a_block_is_an_error(
    said: str | None,
    has_block: bool,
    text: str,
    chain: ChainFixture,
    engine: FakeExecutionEngine,
    run_on: RunOn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refs = follow(chain, engine, 3)

    async def output(reader: Reader, request: OutputRequest) -> OutputResponse:
        block = refs[2] if has_block else None
        return OutputResponse(request.id, said, block, bytes(32), bytes(32), bytes(32), None)

    monkeypatch.setattr(Reader, "output", output)
    async with run_on(engine)(interop=True) as node:
        response = await node.supervise("outputV0AtTimestamp", number=refs[2].timestamp)
        assert error(response) == (-32000, text)


async def test_decisions_and_their_errors(chain: ChainFixture, engine: FakeExecutionEngine, run_on: RunOn) -> None:
    refs = follow(chain, engine, 3)
    good = tuple(refs[number].id for number in (3, 3, 2, 1, 0))
    async with run_on(engine)(interop=True) as node:
        missing = (*good[:2], BlockId(77, bytes(32)), *good[3:])
        assert error(await node.supervise("reset", blocks=missing)) == (-39001, "safe reset target not found")
        wrong = (BlockId(3, b"\x01" * 32), *good[1:])
        response = await node.supervise("reset", blocks=wrong)
        assert error(response) == (-39002, "conflicting block") and response.data is not None
        assert msgspec.json.decode(response.data) == l2_ref_object(refs[3])
        engine.answers["eth_getBlockByNumber"] = [EngineFailure(-32000, "busy")]
        response = await node.supervise("reset", blocks=good)
        assert error(response) == (-32603, "failed to find block reference") and response.data == b'"unsafe"'
        assert result(await node.supervise("reset", blocks=good)) is None
        await node.until(lambda: node.status is not None and node.status.safe == refs[1])
        assert node.status is not None and node.status.local_safe == refs[2] and engine.safe == refs[1].hash
        assert result(await node.supervise("updateCrossSafe", blocks=(refs[2].id, chain.l1_ref(102).id))) is None
        await node.until(lambda: engine.safe == refs[2].hash)
        assert result(await node.supervise("updateFinalized", blocks=(refs[1].id,))) is None
        await node.until(lambda: engine.finalized == refs[1].hash)
        assert result(await node.supervise("updateCrossUnsafe", blocks=(refs[3].id,))) is None
        await node.until(lambda: node.status is not None and node.status.cross_unsafe == refs[3])
        provided = chain.l1_ref(105)
        assert result(await node.supervise("provideL1", l1=provided)) is None
        await node.until(lambda: node.status is not None and node.status.provided_l1 == provided)
        for method in ("updateCrossUnsafe", "updateFinalized"):
            failed = await node.supervise(method, blocks=(ABSENT,))
            assert error(failed) == (-32000, f"failed to get L2BlockRef: {NOT_FOUND}")
        failed = await node.supervise("updateCrossSafe", blocks=(refs[2].id, ABSENT))
        assert error(failed) == (-32000, "failed to get L1BlockRef: not found")
        failed = await node.supervise("invalidateBlock", blocks=(ABSENT,))
        assert error(failed) == (-32000, "failed to get block: not found")
        assert result(await node.supervise("resetPreInterop")) is None
        await node.until(lambda: node.status is not None and node.status.cross_unsafe == node.status.unsafe == refs[3])
        assert node.status is not None and node.status.safe == node.status.local_safe


async def test_a_block_that_was_read_before_a_reset_is_not_promoted(
    chain: ChainFixture, engine: FakeExecutionEngine, run_on: RunOn
) -> None:
    """[IOP28] The L1 block of the promotion arrives after the reset."""
    refs = follow(chain, engine, 3)
    good = tuple(refs[number].id for number in (3, 2, 2, 1, 0))
    async with run_on(engine)(interop=True) as node:
        assert result(await node.supervise("reset", blocks=good)) is None
        await node.until(lambda: node.status is not None and node.status.safe == refs[1])
        assert node.status is not None
        before, node.held_l1 = node.status.reset, 104
        promotion = (refs[2].id, chain.l1_ref(104).id)
        late = asyncio.create_task(node.supervise("updateCrossSafe", blocks=promotion))
        await node.until(lambda: node.held_requests > 0)
        assert result(await node.supervise("reset", blocks=good)) is None
        await node.until(lambda: node.status is not None and node.status.reset > before)
        node.held_l1 = None
        assert result(await late) is None
        assert result(await node.supervise("updateCrossUnsafe", blocks=(refs[3].id,))) is None
        await node.until(lambda: node.status is not None and node.status.cross_unsafe == refs[3])
        assert node.status.safe == refs[1] and engine.safe == refs[1].hash
        assert result(await node.supervise("updateCrossSafe", blocks=promotion)) is None
        await node.until(lambda: engine.safe == refs[2].hash)


async def test_an_invalid_block_is_replaced_and_its_output_is_pending(
    chain: ChainFixture, engine: FakeExecutionEngine, run_on: RunOn
) -> None:
    refs = follow(chain, engine, 3)
    async with run_on(engine)(interop=True) as node:
        await node.supervise("resetPreInterop")
        await node.until(lambda: node.unsafe == 3)
        await node.supervise("invalidateBlock", blocks=(refs[3].id,))

        def replaced() -> bool:
            events = [event for message in received(node, InteropEvents) for _, event in message.events]
            return refs[3].hash in [event.replace_block.invalidated for event in events if event.replace_block]

        client = node.interop
        await node.until(replaced, lambda: client.send(InteropEventsRequest(0)))
        await node.until(lambda: engine.head not in (refs[3].hash, refs[2].hash))
        await node.until(lambda: node.unsafe == 3)
        at = refs[3].timestamp
        pending = result(await node.supervise("pendingOutputV0AtTimestamp", number=at))
        now = result(await node.supervise("outputV0AtTimestamp", number=at))
        assert pending["blockHash"] == to_hex(refs[3].hash) and now["blockHash"] == to_hex(engine.head)


async def test_interop_that_is_not_active(run_on: RunOn) -> None:
    engine = FakeExecutionEngine(chain_with())
    refs = follow(engine.chain, engine, 3)
    async with run_on(engine)(interop=True) as node:
        assert error(await node.supervise("anchorPoint")) == (-39003, "Interop inactive at genesis")
        response = await node.supervise("reset", blocks=(refs[3].id,) * 2 + (refs[2].id,) * 3)
        assert str(response.error).endswith("found to be reorged to is not interop-enabled")


async def test_events_are_sent_again_to_who_asks(
    chain: ChainFixture, engine: FakeExecutionEngine, run_on: RunOn
) -> None:
    follow(chain, engine, 3)
    async with run_on(engine)(interop=True) as node:
        client = node.interop

        def numbers() -> list[int]:
            messages = received(node, InteropEvents)
            return [number for number, _ in messages[-1].events] if messages else []

        await node.until(lambda: bool(numbers()), lambda: client.send(InteropEventsRequest(0)))
        first = numbers()[0]
        assert first == (1 << 32) + 1, "the number says which life of the process it is"
        node.interop_messages.clear()
        client.send(InteropEventsRequest(first))
        await node.supervise("resetPreInterop")
        await node.until(lambda: numbers() == [first + 1])


async def test_answers_to_reads_are_not_kept(chain: ChainFixture, engine: FakeExecutionEngine, run_on: RunOn) -> None:
    """A supervisor fetches the receipts of each block."""
    refs = follow(chain, engine, 3)
    engine.answers["eth_getBlockReceipts"] = [["x" * 1_000_000]] * 8
    async with run_on(engine)(interop=True) as node:
        server, client = node.stage._interop, node.interop
        assert server is not None and client is not None

        async def ask(ids: range, method: str, block: BlockId) -> list[InteropResponse]:
            """Return the responses to calls that are sent at once."""
            node.interop_messages.clear()
            for number in ids:
                client.send(InteropRequest(number, method, (block,)))

            await node.until(lambda: len(received(node, InteropResponse)) == len(ids))
            return received(node, InteropResponse)

        responses = await ask(range(8), "fetchReceipts", refs[2].id)
        assert all(len(response.result) > 1_000_000 for response in responses)
        assert (len(server.responses), server.responses.bytes) == (0, 0)
        for first in range(1000, 1000 + MAX_RESPONSES + 50, 50):
            await ask(range(first, first + 50), "updateFinalized", ABSENT)
        assert len(server.responses) == MAX_RESPONSES and server.responses.bytes < 100_000


async def test_a_decision_waits_for_those_before_it_and_few_receipts_are_read_at_once(
    chain: ChainFixture, run_on: RunOn
) -> None:
    engine = SlowEngine(chain)
    refs = follow(chain, engine, 3)
    async with run_on(engine)(interop=True) as node:
        engine.ready.clear()
        requests = [InteropRequest(number, "fetchReceipts", (refs[2].id,)) for number in range(101, 110)]
        requests.append(InteropRequest(201, "updateFinalized", (ABSENT,)))
        requests.append(InteropRequest(202, "provideL1", l1=chain.l1_ref(105)))
        for request in requests:
            node.interop.send(request)
        await node.until(lambda: len(engine.slow) == MAX_RECEIPTS + 1)
        assert result(await node.supervise("l2BlockRefByNumber", number=2)) == l2_ref_object(refs[2])

        def answered() -> list[int]:
            return [message.id for message in received(node, InteropResponse) if message.id > 100]

        assert not answered() and len(engine.slow) == MAX_RECEIPTS + 1
        engine.ready.set()
        await node.until(lambda: len(answered()) == len(requests))
        assert answered().index(201) < answered().index(202)


async def test_reads_leave_room_for_decisions(chain: ChainFixture, run_on: RunOn) -> None:
    engine = SlowEngine(chain)
    refs = follow(chain, engine, 3)
    async with run_on(engine)(interop=True) as node:
        engine.ready.clear()
        for number in range(101, 102 + MAX_CALLS):
            node.interop.send(InteropRequest(number, "fetchReceipts", (refs[2].id,)))
        assert result(await node.supervise("provideL1", l1=chain.l1_ref(105))) is None
        assert len(engine.slow) <= MAX_RECEIPTS, "no read has ended"
        engine.ready.set()
        assert isinstance(result(await node.supervise("l2BlockRefByNumber", number=2)), dict)


def test_the_deposits_and_one_more(chain: ChainFixture) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100, [chain.user]))
    value = replacement_attributes(payload)
    *kept, added = value.transactions
    assert kept == [raw for raw in payload.transactions if is_deposit(raw)] and chain.user not in kept
    assert (value.timestamp, value.gas_limit, value.no_tx_pool) == (payload.timestamp, payload.gas_limit, True)
    assert value.parent_beacon_root == payload.parent_beacon_root and value.prev_randao == payload.prev_randao
    assert value.eip1559_params == payload.extra_data[1:9]
    assert (value.min_base_fee is None) == (len(payload.extra_data) == 9)
    deposit = decode_deposit(added)
    assert (deposit.to, deposit.mint, deposit.value) == (ZERO_ADDRESS, 0, 0)
    assert (deposit.gas, deposit.is_system) == (36_000, False)
    assert payload.withdrawals_root is not None
    assert deposit.data == output_preimage(payload.state_root, payload.withdrawals_root, payload.block_hash)
    replaced = chain.seal(chain.genesis, value)
    assert replaced_output(replaced) == (payload.state_root, payload.withdrawals_root, payload.block_hash)
    assert replaced_output(payload) is None


def test_blocks_that_are_no_replacements(chain: ChainFixture) -> None:
    payload = chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))
    assert replaced_output(payload) is None, "its last transaction is an ordinary deposit"
    with pytest.raises(InteropError, match="expected block-replacement tx"):
        replaced_output(msgspec.structs.replace(payload, transactions=()))
    with pytest.raises(InteropError, match="failed to unmarshal invalidated-block"):
        replaced_output(msgspec.structs.replace(payload, transactions=(b"\x7e\x01",)))
    with pytest.raises(InteropError, match="withdrawals-root is nil"):
        replacement_attributes(msgspec.structs.replace(payload, withdrawals_root=None))
