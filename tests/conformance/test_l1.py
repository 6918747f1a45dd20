"""L1 traversal: blocks that do not exist yet, failures, and blocks that show a reorg [T1 to T8]."""

from collections.abc import Callable
from typing import Any

import pytest

from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedL1Block
from rollup_node.stages.derivation.reasons import l1 as reasons
from rollup_node.stages.messages.blobs import BlobsRequest, BlobsResponse, BlobsUnavailable
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1BlockUnavailable
from rollup_node.stages.protocol.types import L1Block
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.batcher.channels import encode_blob
from tests.conformance.kit.cases import case
from tests.conformance.kit.chain import (
    BATCHER,
    FIRST_L1,
    L1_BLOCK_TIME,
    STRANGER,
    batcher_update,
    blobs,
    calldata,
    config_log,
    forks_until,
    l1_hash,
)
from tests.conformance.kit.l1_endpoint import EndpointTransaction, L1Endpoint
from tests.conformance.kit.l1_transactions import DYNAMIC_FEE, SIGNER, signed
from tests.conformance.kit.planning import channel, plan, refs
from tests.conformance.kit.processes import blobs_running, l1_running
from tests.conformance.kit.rollup_chain import RollupChain
from tests.support.processes.stage_runner import run_within
from tests.support.servers.fake_beacon import SLOT, FakeBeacon, KnownBlob

pytestmark = pytest.mark.fault("F35")

ECOTONE = forks_until("ecotone")


@case("l1_next_missing")
def nothing_after_the_origin() -> None:
    chain = RollupChain(ECOTONE)
    chain.mine()
    assert chain.run() == []
    origin = chain.deriver.origin
    assert (origin and origin.number) == chain.head
    for _ in range(3):
        assert chain.run() == []
        assert chain.last_output == NeedL1Block(chain.head + 1)
    assert (chain.deriver.origin, chain.take_reasons()) == (origin, [])
    chain.mine()
    chain.run()
    assert chain.last_output == NeedL1Block(chain.head + 1)


@case("l1_next_wrong_parent")
def another_parent() -> None:
    chain = RollupChain(ECOTONE)
    chain.mine()
    chain.run()
    origin = chain.deriver.origin
    block = chain.l1.add(parent=l1_hash(1, "other"))
    chain.run()
    assert chain.reset_reason == reasons.L1ParentMismatch(
        block.header.number, block.header.parent_hash, l1_hash(FIRST_L1 + 1)
    )
    assert chain.deriver.origin == origin
    assert chain.take_drops() == [(DropEffect.RESET, reasons.L1ParentMismatch)]


@case("l1_batcher_change_same_block")
def batcher_changes_in_the_block() -> None:
    """Both send a channel with the same next block, which has other transactions in the old batcher's."""
    chain = RollupChain(ECOTONE)
    chain.mine()
    (new,), (old,) = plan(chain.safe, 1), plan(chain.safe, 1, [b"\2old"])
    (by_old,), (by_new,) = channel("A", old.singular), channel("B", new.singular)
    chain.mine(updates=[batcher_update(STRANGER)], inbox=[calldata(by_old), calldata(by_new, STRANGER)])
    assert refs(chain.run()) == refs([new])
    assert [item.reason for item in chain.dropped] == [reasons.SenderNotBatcher(BATCHER, STRANGER)]


@case("l1_bad_config_log")
def malformed_config_log() -> None:
    chain = RollupChain(ECOTONE)
    chain.mine()
    (block,) = plan(chain.safe, 1)
    chain.mine(*channel("A", block.singular), updates=[config_log(0, bytes(95), index=7)])
    assert refs(chain.run()) == refs([block])
    (dropped,) = chain.dropped
    assert (dropped.effect, dropped.reason.kind, dropped.reason.values["log"]) == (
        DropEffect.IGNORED,
        reasons.ConfigUpdateMalformed,
        7,
    )
    assert chain.deriver.origin_config is not None and chain.deriver.origin_config.batcher == BATCHER


@case("l1_same_number_other_hash")
def replaced_at_the_same_height() -> None:
    """The replacement itself is not needed; the block on top of it shows the reorg."""
    chain = RollupChain(ECOTONE)
    chain.mine()
    chain.run()
    old = chain.l1.blocks.pop()
    new = chain.l1.add(branch="other")
    assert new.header.number == old.header.number
    assert not chain.deriver.add_l1_block(new)
    assert chain.run() == []
    assert chain.reset_reason is None
    chain.mine()
    chain.run()
    assert chain.reset_reason == reasons.L1ParentMismatch(chain.head, new.header.hash, old.header.hash)


# --- the process that fetches L1 blocks ----------------------------------------------------------------------------


def has_number(number: int) -> Callable[[L1BlockResponse], bool]:
    return lambda answer: answer.block.header.number == number


def is_known(number: int) -> Callable[[L1BlockUnavailable], bool]:
    """Whether an answer has the reason why a block up to the head is unavailable."""
    return lambda answer: answer.error is not None and (answer.number, answer.head) == (number, number)


@case("l1_receipts_fail")
def receipts_fail_for_a_while() -> None:
    """They are needed as the block has a config event."""
    endpoint, event = L1Endpoint(), (batcher_update(STRANGER),)
    endpoint.add(EndpointTransaction(signed(DYNAMIC_FEE)), EndpointTransaction(signed(DYNAMIC_FEE, nonce=1), event))
    failures = ["the database is busy"]
    served = endpoint.methods()

    def receipts(block_hash: str) -> Any:
        if failures:
            raise JsonRpcError(-32000, failures.pop())
        return served["eth_getBlockReceipts"](block_hash)

    async def use() -> None:
        async with l1_running({**served, "eth_getBlockReceipts": receipts}) as requester:
            number = FIRST_L1 + 1
            await requester.until(L1BlocksRequest(number, 1), L1BlockUnavailable, is_known(number))
            result = await requester.until(L1BlocksRequest(number, 1), L1BlockResponse, has_number(number))
            assert not failures
            assert len(result.block.config_updates) == 1
            assert [item.sender for item in result.block.inbox] == [SIGNER, SIGNER]

    run_within(20, use)


@case("l1_data_block_notfound")
def not_found_when_its_receipts_are_fetched() -> None:
    """The l1 process gives complete blocks only, so derivation is still at the block before when one is not found by
    its hash. The block in its place is of another branch, and for that a reset is needed."""
    endpoint = L1Endpoint()
    endpoint.add()
    endpoint.add(EndpointTransaction(signed(DYNAMIC_FEE), (batcher_update(STRANGER),)))
    served = endpoint.methods()
    first, last = FIRST_L1 + 1, FIRST_L1 + 2
    before = endpoint.verified(first)
    asked: list[str] = []

    def receipts(block_hash: str) -> Any:
        """When they are requested, both blocks have been replaced."""
        if not asked:
            endpoint.replace(2, 2)
        asked.append(block_hash)
        return served["eth_getBlockReceipts"](block_hash)

    result: list[L1Block] = []

    async def use() -> None:
        async with l1_running({**served, "eth_getBlockReceipts": receipts}) as requester:
            result.append((await requester.until(L1BlocksRequest(last, 1), L1BlockResponse, has_number(last))).block)

    run_within(20, use)
    assert len(asked) == 1
    chain = RollupChain(ECOTONE)
    chain.l1.blocks = [chain.l1[FIRST_L1], before, *result]
    chain.reset(first)
    chain.run()
    assert chain.reset_reason is not None and chain.reset_reason.kind is reasons.L1ParentMismatch
    assert chain.deriver.origin == before.ref


# --- the process that fetches blobs --------------------------------------------------------------------------------


class WithBlob:
    """Derivation at a block whose only batch is in a blob."""

    def __init__(self) -> None:
        self.chain = RollupChain(ECOTONE)
        (self.planned,) = plan(self.chain.safe, 1)
        (data,) = channel("A", self.planned.singular)
        blob = encode_blob(data)
        commitment = blob_to_commitment(blob)
        self.beacon = FakeBeacon([KnownBlob(versioned_hash(commitment), blob, commitment)])
        self.chain.mine(inbox=[blobs([self.beacon.blobs[0].hash])])
        self.beacon.genesis_time = self.chain.l1.last.header.timestamp - L1_BLOCK_TIME * SLOT
        self.chain.run()
        assert isinstance(self.chain.last_output, NeedBlobs)
        self.need = self.chain.last_output
        self.want = BlobsRequest(self.need.block, self.need.blobs, True)


@case("l1_blob_notfound")
def blobs_not_found() -> None:
    at = WithBlob()
    at.beacon.status = {"blobs": 404, "blob_sidecars": 404}

    async def use() -> None:
        async with blobs_running(at.beacon.app()) as requester:
            missing = await requester.until(at.want, BlobsUnavailable)
            assert missing.not_found
            at.chain.deriver.blobs_not_found(missing.block_hash)

    run_within(20, use)
    at.chain.run()
    assert at.chain.reset_reason == reasons.BlobsNotFound(at.chain.head)


@case("l1_blob_http_error")
def blobs_come_late() -> None:
    at = WithBlob()
    at.beacon.delay = 1.0

    async def use() -> None:
        async with blobs_running(at.beacon.app()) as requester:
            missing = await requester.until(at.want, BlobsUnavailable)
            assert not missing.not_found
            assert at.chain.run() == []
            assert at.chain.last_output == at.need
            at.beacon.delay = 0.0
            result = await requester.until(at.want, BlobsResponse)
            assert at.chain.deriver.add_blobs(result.block_hash, result.contents)

    run_within(20, use)
    assert refs(at.chain.run()) == refs([at.planned])
    assert at.chain.take_reasons() == []
