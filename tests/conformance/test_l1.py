"""Walking over L1 (derivation-rules 2): what is not there yet, what fails, and what shows that the chain is another."""

from collections.abc import Callable
from typing import Any

from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedL1Block
from rollup_node.stages.derivation.reasons.reasons import Effect, Why
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.types import L1Block
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.batcher.channels import encode_blob
from tests.conformance.kit.cases import case
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    STRANGER,
    batcher_update,
    blobs,
    calldata,
    config_log,
    forks_until,
    l1_hash,
)
from tests.conformance.kit.endpoint import Endpoint, Transaction, config_event
from tests.conformance.kit.shells import Beacon, blobs_running, bounded, l1_running
from tests.conformance.kit.signed import DYNAMIC_FEE, SIGNER, signed
from tests.conformance.kit.worlds import World, channel, plan, refs

ECOTONE = forks_until("ecotone")


@case("l1_next_missing")
def nothing_after_the_origin() -> None:
    world = World(ECOTONE)
    world.mine()
    assert world.run() == []
    origin = world.deriver.origin
    assert (origin and origin.number) == world.head
    for _ in range(3):
        assert world.run() == []
        assert world.last == NeedL1Block(world.head + 1)
    assert (world.deriver.origin, world.said()) == (origin, [])
    world.mine()
    world.run()
    assert world.last == NeedL1Block(world.head + 1)


@case("l1_next_wrong_parent")
def another_parent() -> None:
    world = World(ECOTONE)
    world.mine()
    world.run()
    origin = world.deriver.origin
    block = world.l1.add(parent=l1_hash(1, "other"))
    world.run()
    assert world.reset_reason == Why.L1_PARENT(
        number=block.header.number, parent=block.header.parent_hash, expected=l1_hash(FIRST_L1 + 1)
    )
    assert world.deriver.origin == origin
    assert world.effects() == [(Effect.RESET, Why.L1_PARENT)]


@case("l1_batcher_change_same_block")
def batcher_changes_in_the_block() -> None:
    """Both send a channel with the same next block, which has other transactions in the old batcher's."""
    world = World(ECOTONE)
    world.mine()
    (new,), (old,) = plan(world.safe, 1), plan(world.safe, 1, [b"\2old"])
    (by_old,), (by_new,) = channel("A", old.singular), channel("B", new.singular)
    world.mine(updates=[batcher_update(STRANGER)], inbox=[calldata(by_old), calldata(by_new, STRANGER)])
    assert refs(world.run()) == refs([new])
    assert [each.reason for each in world.dropped] == [Why.SENDER(sender=BATCHER, batcher=STRANGER)]


@case("l1_bad_config_log")
def malformed_config_log() -> None:
    world = World(ECOTONE)
    world.mine()
    (block,) = plan(world.safe, 1)
    world.mine(*channel("A", block.singular), updates=[config_log(0, bytes(95), index=7)])
    assert refs(world.run()) == refs([block])
    (dropped,) = world.dropped
    assert (dropped.effect, dropped.reason.why, dropped.reason.values["log"]) == (Effect.IGNORED, Why.CONFIG_UPDATE, 7)
    assert world.deriver.origin_config is not None and world.deriver.origin_config.batcher == BATCHER


@case("l1_same_number_other_hash")
def replaced_at_the_same_height() -> None:
    """The replacement itself is not what is asked for; the block on top of it shows what has happened."""
    world = World(ECOTONE)
    world.mine()
    world.run()
    old = world.l1.blocks.pop()
    new = world.l1.add(branch="other")
    assert new.header.number == old.header.number
    assert not world.deriver.add_l1_block(new)
    assert world.run() == []
    assert world.reset_reason is None
    world.mine()
    world.run()
    assert world.reset_reason == Why.L1_PARENT(number=world.head, parent=new.header.hash, expected=old.header.hash)


# --- the process that fetches L1 blocks ----------------------------------------------------------------------------


def with_config_event() -> Endpoint:
    """A chain whose second block has an event, so that its receipts are needed."""
    endpoint = Endpoint()
    endpoint.add(Transaction(signed(DYNAMIC_FEE)), Transaction(signed(DYNAMIC_FEE, nonce=1), (config_event(),)))
    return endpoint


def is_block(number: int) -> Callable[[Any], bool]:
    return lambda answer: isinstance(answer, L1BlockResponse) and answer.block.header.number == number


def is_missing_although_known(number: int) -> Callable[[Any], bool]:
    """Whether an answer says that a block cannot be had though the head is as high, and why."""
    return lambda answer: (
        isinstance(answer, L1BlockUnavailable)
        and answer.error is not None
        and (answer.number, answer.head) == (number, number)
    )


@case("l1_receipts_fail")
def receipts_fail_for_a_while() -> None:
    endpoint = with_config_event()
    busy = [True]
    served = endpoint.methods()

    def receipts(block_hash: str) -> Any:
        if busy[0]:
            raise JsonRpcError(-32000, "the database is busy")
        return served["eth_getBlockReceipts"](block_hash)

    async def use() -> None:
        async with l1_running({**served, "eth_getBlockReceipts": receipts}) as asking:
            number = FIRST_L1 + 1
            await asking.until(L1BlocksRequest(number, 1), is_missing_although_known(number))
            busy[0] = False
            found = await asking.until(L1BlocksRequest(number, 1), is_block(number))
            assert len(found.block.config_updates) == 1
            assert [each.sender for each in found.block.inbox] == [SIGNER, SIGNER]

    bounded(use)


@case("l1_data_block_notfound")
def gone_before_its_data_was_had() -> None:
    """The l1 process hands out whole blocks only, so that derivation is still at the block before when one is gone by
    its hash. What comes in its place is of another branch, and for that a reset is wanted."""
    endpoint = Endpoint()
    endpoint.add()
    endpoint.add(Transaction(signed(DYNAMIC_FEE), (config_event(),)))
    served = endpoint.methods()
    first, last = FIRST_L1 + 1, FIRST_L1 + 2
    before = endpoint.verified(first)
    asked: list[str] = []

    def receipts(block_hash: str) -> Any:
        """When they are asked for, both blocks have been replaced."""
        if not asked:
            endpoint.replace(2, 2)
        asked.append(block_hash)
        return served["eth_getBlockReceipts"](block_hash)

    found: list[L1Block] = []

    async def use() -> None:
        async with l1_running({**served, "eth_getBlockReceipts": receipts}) as asking:
            found.append((await asking.until(L1BlocksRequest(last, 1), is_block(last))).block)

    bounded(use)
    assert len(asked) == 1
    world = World(ECOTONE)
    world.l1.blocks = [world.l1[FIRST_L1], before, *found]
    world.reset(first)
    world.run()
    assert world.reset_reason is not None and world.reset_reason.why is Why.L1_PARENT
    assert world.deriver.origin == before.ref


# --- the process that fetches blobs --------------------------------------------------------------------------------


class WithBlob:
    """Derivation at a block whose only batch is in a blob."""

    def __init__(self) -> None:
        self.world = World(ECOTONE)
        (self.planned,) = plan(self.world.safe, 1)
        (data,) = channel("A", self.planned.singular)
        self.beacon = Beacon([encode_blob(data)])
        self.world.mine(inbox=[blobs([self.beacon.refs[0].hash])])
        self.world.run()
        assert isinstance(self.world.last, NeedBlobs)
        self.need = self.world.last
        self.want = BlobsRequest(self.need.block, self.need.blobs, True)


@case("l1_blob_notfound")
def nobody_has_the_blobs() -> None:
    at = WithBlob()
    at.beacon.has_blobs = False

    async def use() -> None:
        async with blobs_running(at.beacon.app()) as asking:
            missing = await asking.until(at.want, lambda answer: isinstance(answer, BlobsUnavailable))
            assert missing.not_found
            at.world.deriver.blobs_gone(missing.block_hash)

    bounded(use)
    at.world.run()
    assert at.world.reset_reason == Why.BLOBS_GONE(number=at.world.head)


@case("l1_blob_http_error")
def blobs_come_late() -> None:
    at = WithBlob()
    at.beacon.delays = [1.0]

    async def use() -> None:
        async with blobs_running(at.beacon.app()) as asking:
            missing = await asking.until(at.want, lambda answer: isinstance(answer, BlobsUnavailable))
            assert not missing.not_found
            assert at.world.run() == []
            assert at.world.last == at.need
            found = await asking.until(at.want, lambda answer: isinstance(answer, BlobsResponse))
            assert at.world.deriver.add_blobs(found.block_hash, found.contents)

    bounded(use)
    assert refs(at.world.run()) == refs([at.planned])
    assert at.world.said() == []
