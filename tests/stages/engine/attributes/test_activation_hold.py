"""An activation block with other upgrade transactions: what is recognised, how derivation waits, and what ends it
[UPG24 to UPG26]."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from rollup_node.stages.engine.attributes.activation_hold import OtherUpgrade, other_upgrade
from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.calls.engine_api import ForkchoiceUpdate, GetBlock
from rollup_node.stages.messages.engine import AttributesReady, BatchParent
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.bundles import BUNDLE_FORKS, CarriedBundle
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.protocol.upgrade_bundle import parse_bundle
from rollup_node.stages.protocol.upgrade_transactions import carried_bundle, carried_file, encode_bundle
from tests.support.chains.chain_fixture import ALL_FORKS, GENESIS_TIME, USER, ChainFixture, chain_with
from tests.support.engine.attributes_jobs import BUILD, asked, started, step_through

LAGOON = BUNDLE_FORKS["lagoon"].carried
FORKS = {**dict.fromkeys((*ALL_FORKS, "karst"), 0), "lagoon": GENESIS_TIME + 2}


def using(carried: CarriedBundle, chains: int = 1, **changes: Any) -> ChainFixture:
    """Return a chain whose first block activates Lagoon with this bundle."""
    return chain_with(
        FORKS, bundles={"lagoon": carried_bundle("lagoon", carried)}, dependency_set_size=chains, **changes
    )


OURS, THEIRS = using(LAGOON[0]), using(LAGOON[1])


def first_block(chain: ChainFixture) -> ExecutionPayload:
    return chain.seal(chain.genesis, chain.attributes(chain.genesis, 100))


def seen(block: ExecutionPayload, rollup: RollupConfig = OURS.rollup) -> OtherUpgrade | None:
    """Return what a node with our bundle sees in a block."""
    chain = ChainFixture(rollup)
    return other_upgrade(rollup, chain.attributes(chain.genesis, 100), chain.genesis.hash, block)


# --- what is recognised --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chains", [1, 2])
def test_another_bundle_is_described_and_written(chains: int) -> None:
    block = first_block(using(LAGOON[1], chains))
    result = seen(block, using(LAGOON[0], chains).rollup)
    assert result is not None
    assert (result.fork, result.number, result.hash) == ("lagoon", 1, block.block_hash)
    assert (result.used, result.sha256, result.carried) == (LAGOON[0].sha256, LAGOON[1].sha256, LAGOON[1])
    assert parse_bundle(result.file) == carried_file("lagoon", LAGOON[1])
    assert re.match(r"transaction \d+: its data has \d+ bytes instead of ", result.difference)
    assert not result.same_bundle
    assert "--rollup.lagoon-bundle" in result.text and "\n" not in result.text
    assert f"in --rollup.bundle-dir: {result.file_name} " in result.text


@pytest.mark.parametrize(("ours", "theirs", "verb"), [(1, 2, "has"), (2, 1, "lacks")])
def test_another_dependency_set_is_named(ours: int, theirs: int, verb: str) -> None:
    result = seen(first_block(using(LAGOON[0], theirs)), using(LAGOON[0], ours).rollup)
    assert result is not None and result.same_bundle
    assert result.difference == f"it {verb} the transactions of a chain with others in its dependency set"
    assert "--interop.dependency-set" in result.text and result.file_name not in result.text


def test_another_room_for_the_wrappers_is_named() -> None:
    file = carried_file("lagoon", LAGOON[0])
    bundle = encode_bundle("lagoon", file._replace(extra_gas=0), "", "")
    result = seen(first_block(chain_with(FORKS, bundles={"lagoon": bundle})))
    assert result is not None and result.carried is None
    gas = sum(entry.gas for entry in file.entries)
    assert result.difference == f"the gas limit leaves {gas} for them instead of {gas + 150_000}"
    assert parse_bundle(result.file).extra_gas == 0


def changed(**changes: Any) -> ExecutionPayload:
    return msgspec.structs.replace(first_block(THEIRS), **changes)


BLOCK = first_block(THEIRS)


@pytest.mark.parametrize(
    "block",
    [
        first_block(OURS),
        changed(parent_hash=b"\x01" * 32),
        changed(prev_randao=b"\x01" * 32),
        changed(fee_recipient=b"\x01" * 20),
        changed(extra_data=b"\x01"),
        changed(transactions=BLOCK.transactions[1:]),
        changed(transactions=(*BLOCK.transactions, USER)),
        changed(transactions=BLOCK.transactions[:1]),
        changed(transactions=(*BLOCK.transactions[:-1], b"\x7e\x01")),
        changed(transactions=(*BLOCK.transactions, *(BLOCK.transactions[-1],) * 256)),
    ],
    ids=["equal", "parent", "randao", "recipient", "extraData", "L1 info", "user", "no upgrade", "no deposit", "many"],
)
def test_any_other_block_is_not_waited_for(block: ExecutionPayload) -> None:
    assert seen(block) is None


# --- in the handler ------------------------------------------------------------------------------------------------


def derived(chain: ChainFixture) -> AttributesReady:
    """Return block 1, by our bundle."""
    return AttributesReady(1, 1, chain.genesis, chain.attributes(chain.genesis, 100), chain.l1_ref(102), True)


def held() -> tuple[ChainFixture, AttributesHandler, AttributesReady, Sequence[L2BlockRef]]:
    """Derivation waits before block 1 of the other bundle, on which the chain goes on."""
    chain = ChainFixture(OURS.rollup)
    first = chain.ref(chain.keep(BLOCK))
    refs = [chain.genesis, first, *chain.extend(first, 3, ())]
    handler, message = started(chain, refs[-1], chain.genesis), derived(chain)
    assert handler.offer(message) is None
    assert handler.next() == GetBlock(1)
    assert step_through(handler, BLOCK) is None
    return chain, handler, message, refs


def ask(handler: AttributesHandler, message: AttributesReady, *parents: BatchParent) -> None:
    """Derivation repeats its attributes, with what L1 says."""
    handler.add(msgspec.structs.replace(message, parents=parents))


def test_our_block_is_built_where_l1_names_another_one() -> None:
    _, handler, message, _ = held()
    ask(handler, message, BatchParent(1, b"\x07" * 20))
    assert handler.next() == GetBlock(1)
    assert step_through(handler, BLOCK) is None
    assert asked(handler) == message.attributes and handler.hold is None and handler.building
    assert step_through(handler, BUILD) is None


def test_the_sequencer_may_sign_our_block_later() -> None:
    """The engine cannot take it: it is not the tip's child."""
    _, handler, message, _ = held()
    handler.note_signed(BLOCK)
    assert handler.next() is None and handler.hold is not None
    handler.note_signed(first_block(OURS))
    assert asked(handler) == message.attributes and handler.building
    assert handler.job is not None and "the sequencer has replaced block 1:" in str(handler.job.reason)


@pytest.mark.parametrize("signed", [True, False])
def test_the_sequencers_block_on_its_way_is_waited_for_too(signed: bool) -> None:
    """It is in the queue, and the engine does not have it yet; without one ours is built."""
    chain = ChainFixture(OURS.rollup)
    handler, message = started(chain, chain.genesis, chain.genesis), derived(chain)
    if signed:
        handler.note_signed(BLOCK)
    assert handler.offer(message) is None
    if signed:
        assert handler.hold is not None and handler.next() is None and not handler.building
        ask(handler, message)
        assert handler.next() is None
        handler.forget_signed(BLOCK.block_hash)
    assert isinstance(handler.next(), ForkchoiceUpdate) and handler.hold is None
