"""The engine core of a chain in a supernode, and what the interop process says of its blocks."""

from typing import Any

from rollup_node.stages.protocol.deposits import is_deposit
from rollup_node.stages.protocol.types import L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.core_harness import CoreHarness


def supernode(chain: ChainFixture, **config: Any) -> CoreHarness:
    """Return a node of a supernode that has not heard of the interop process."""
    harness = CoreHarness(chain, verified=True, safedb_path="safe", **config)
    harness.move_l1(harness.l1_head)
    return harness


def judged(chain: ChainFixture, **config: Any) -> CoreHarness:
    """Return one that has heard that nothing is verified or denied, with its start."""
    harness = supernode(chain, **config)
    harness.judge()
    harness.run_until_idle()
    harness.derive_block()
    return harness


def derive(harness: CoreHarness, blocks: int) -> list[L2BlockRef]:
    """Derive blocks with a transaction; the safe heads, genesis first."""
    refs = [harness.heads.safe]
    for _ in range(blocks):
        harness.derive_block(harness.chain.user)
        harness.pass_time(0.2)
        refs.append(harness.heads.safe)
    return refs


def deny(harness: CoreHarness, refs: list[L2BlockRef], number: int, transition: int = 1) -> None:
    """The block of that number is invalid, and all below it are verified."""
    block, parent = refs[number].id, refs[number - 1].id
    harness.judge(verified=parent, denied=[block], transition=transition, go_back=parent)
    harness.run_until_idle()


def replaced(harness: CoreHarness, refs: list[L2BlockRef], number: int) -> L2BlockRef:
    """Deny a block and derive it again; its replacement."""
    deny(harness, refs, number)
    harness.pass_time(2.0)
    harness.derive_block(harness.chain.user)
    harness.pass_time(0.2)
    assert harness.heads.unsafe.number == number
    return harness.heads.unsafe


def restarted(harness: CoreHarness, **config: Any) -> CoreHarness:
    """Return another life of the process, with the same engine and safe head database."""
    other = CoreHarness(harness.chain, harness.engine, verified=True, safedb_path="safe", **config)
    other.record, other.now = harness.record, harness.now
    other.move_l1(harness.l1_head)
    return other


def deposits_alone(harness: CoreHarness, block: L2BlockRef) -> bool:
    return all(map(is_deposit, harness.chain.payloads[block.hash].transactions))
