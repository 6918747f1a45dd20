"""L1 traversal: blocks that do not exist yet, failures, and blocks that show a reorg [T1 to T8]."""

from typing import Any

import pytest

from rollup_node.stages.derivation.pipeline.outputs import NeedBlobs, NeedL1Block
from rollup_node.stages.derivation.reasons import l1 as reasons
from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import BlobRef
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
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
from tests.conformance.kit.l1_endpoint import L1_FILTER, EndpointTransaction, L1Endpoint
from tests.conformance.kit.l1_transactions import DYNAMIC_FEE, SIGNER, signed
from tests.conformance.kit.planning import Planned, channel, plan, refs
from tests.conformance.kit.rollup_chain import RollupChain
from tests.stages.l1.process.test_stage import running_l1

pytestmark = pytest.mark.fault("F35")

ECOTONE = forks_until("ecotone")
H1 = b"\1" * 32


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


@case("l1_receipts_fail")
async def receipts_fail_for_a_while() -> None:
    """They are needed as the block has a config event."""
    endpoint, event = L1Endpoint(), (batcher_update(STRANGER),)
    endpoint.add(EndpointTransaction(signed(DYNAMIC_FEE)), EndpointTransaction(signed(DYNAMIC_FEE, nonce=1), event))
    served, number, fails = endpoint.methods(), FIRST_L1 + 1, True

    def receipts(block_hash: str) -> Any:
        if fails:
            raise JsonRpcError(-32000, "the database is busy")
        return served["eth_getBlockReceipts"](block_hash)

    async with running_l1(L1_FILTER, [{**served, "eth_getBlockReceipts": receipts}]) as clients:
        known = (number, number)
        await clients.until(
            lambda: any(item.error and (item.number, item.head) == known for item in clients.unavailable), (number, 1)
        )
        fails = False
        await clients.until(lambda: number in clients.blocks, (number, 1))
        assert len(clients.blocks[number].config_updates) == 1
        assert [item.sender for item in clients.blocks[number].inbox] == [SIGNER, SIGNER]


@case("l1_data_block_notfound")
async def not_found_when_its_receipts_are_fetched() -> None:
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

    async with running_l1(L1_FILTER, [{**served, "eth_getBlockReceipts": receipts}]) as clients:
        await clients.until(lambda: last in clients.blocks, (last, 1))
    assert len(asked) == 1
    chain = RollupChain(ECOTONE)
    chain.l1.blocks = [chain.l1[FIRST_L1], before, clients.blocks[last]]
    chain.reset(first)
    chain.run()
    assert chain.reset_reason is not None and chain.reset_reason.kind is reasons.L1ParentMismatch
    assert chain.deriver.origin == before.ref


# --- blobs, of which other tests have the process that fetches them ------------------------------------------------


def at_a_blob() -> tuple[RollupChain, Planned, bytes]:
    """Return derivation at a block whose only batch is in blob H1, the block that it gives, and the blob's data."""
    chain = RollupChain(ECOTONE)
    (planned,) = plan(chain.safe, 1)
    (data,) = channel("A", planned.singular)
    block = chain.mine(inbox=[blobs([H1])])
    assert chain.run() == []
    assert chain.last_output == NeedBlobs(block.ref, (BlobRef(0, H1),))
    return chain, planned, data


@case("l1_blob_notfound")
def blobs_not_found() -> None:
    chain, _, _ = at_a_blob()
    chain.deriver.blobs_not_found(chain.l1.last.header.hash)
    chain.run()
    assert chain.reset_reason == reasons.BlobsNotFound(chain.head)


@case("l1_blob_http_error")
def blobs_come_late() -> None:
    chain, planned, data = at_a_blob()
    need = chain.last_output
    assert (chain.run(), chain.last_output) == ([], need)
    chain.blobs[H1] = data
    assert refs(chain.run()) == refs([planned])
    assert chain.take_reasons() == []
