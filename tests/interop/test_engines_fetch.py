"""Late nodes whose engine, op-geth or op-reth, has another one of its kind as its peer: the engine fetches the gap
below gossiped blocks [UNS6], and the chain of a follow source without any gossip [FSR3]."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from tests.support.foreign.engines import ENGINES, ForeignEngine, connect_engines, foreign_engine, prepared
from tests.support.foreign.op_programs import find_program
from tests.support.processes.extra_node import ExtraNode
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call

L1_CONFS = 100_000
"""More confirmations than L1 has blocks: derivation waits, so that no block comes from L1."""
BLOCKS_BEFORE = 6
PEERS = 4


class Late(NamedTuple):
    """A network whose verifier has the `other` engine, and an empty engine that is a peer of that one."""

    net: Devnet
    engine: ForeignEngine
    other: ForeignEngine


@contextmanager
def late_engine(watch: Leftovers, name: str) -> Iterator[Late]:
    """Both engines, and a network with some blocks."""
    find_program(name)
    genesis, jwt = prepared(watch)
    with (
        foreign_engine(name, watch, genesis, jwt, peers=PEERS) as other,
        foreign_engine(name, watch, genesis, jwt, peers=PEERS) as engine,
        Devnet(watch, "--verifier-engine", f"{other.http},{other.auth}", *CALLDATA) as net,
    ):
        net.wait(lambda: net.sync_status("verifier")["unsafe_l2"]["number"] >= BLOCKS_BEFORE, "unsafe blocks")
        connect_engines(engine, other)
        yield Late(net, engine, other)
        net.finish()


def assert_same_block(late: Late, number: int) -> None:
    """Assert that both engines have the same block."""
    urls = late.engine.http, late.other.http
    ours, theirs = (call(url, "eth_getBlockByNumber", hex(number), False)["hash"] for url in urls)
    assert ours == theirs


@pytest.mark.parametrize("name", ENGINES)
def test_a_gap_below_gossiped_blocks(name: str, leftovers: Leftovers) -> None:
    with late_engine(leftovers, name) as late:
        options = {"l2": late.engine.auth, "p2p.sync.req-resp": "false", "verifier.l1-confs": L1_CONFS}
        node = ExtraNode(leftovers, late.net, late.net.node("sequencer")["p2p"], options)
        try:
            missing = late.net.sync_status("verifier")["unsafe_l2"]["number"]
            node.wait_for_head(missing + 1)
            assert_same_block(late, missing)
            assert node.head("safe_l2") == 0, "no block was derived"
        finally:
            node.stop()


@pytest.mark.parametrize("name", ENGINES)
def test_the_chain_of_a_follow_source(name: str, leftovers: Leftovers) -> None:
    """The source names blocks by their hash alone."""
    with late_engine(leftovers, name) as late:
        source = late.net.node("verifier")["rpc"]
        options = {"l2": late.engine.auth, "p2p.disable": "true", "l2.follow.source": source}
        node = ExtraNode(leftovers, late.net, "", options)
        try:
            late.net.wait_for_safe(1)
            first = late.net.safe_number()
            node.wait_for_head(first + 1, "safe_l2")
            assert_same_block(late, first)
        finally:
            node.stop()
