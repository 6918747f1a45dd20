"""Gaps in the unsafe chain of nodes that do not request blocks from peers: an engine that has peers of its own fetches
them, and one that has none is named [UNS6]."""

from collections.abc import Iterator

import pytest

from tests.support.processes.extra_node import ExtraNode
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, call_batch, unready_reasons, wait_for

L1_CONFS = 100_000
"""More confirmations than L1 has blocks: derivation waits, so that no block comes from L1."""
BLOCKS_BEFORE = 6


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network with some blocks."""
    with Devnet(module_leftovers, *CALLDATA) as running:
        running.wait(lambda: head(running) >= BLOCKS_BEFORE, f"{BLOCKS_BEFORE} unsafe blocks")
        yield running
        running.finish()


def head(net: Devnet) -> int:
    """Return the number of the sequencer's unsafe head."""
    return int(net.sync_status("sequencer")["unsafe_l2"]["number"])


def test_engines_fetch_gaps_or_are_named(net: Devnet, module_leftovers: Leftovers) -> None:
    """Both nodes are late and get gossip alone."""
    source, peer = ("--el-sync-from", net.node("sequencer")["engine"]), net.node("sequencer")["p2p"]
    options = {"p2p.sync.req-resp": "false", "verifier.l1-confs": L1_CONFS}
    fetching = ExtraNode(module_leftovers, net, peer, options, "fetching", source)
    alone = ExtraNode(module_leftovers, net, peer, options, "alone")
    nodes = fetching, alone
    try:
        missing = head(net)
        wait_for(lambda: fetching.head() >= missing, f"block {missing}: {fetching.program.out[-3000:]}")
        last = fetching.head()
        wait_for(lambda: fetching.head() > last, "gossip goes on above the gap")
        calls = [("eth_getBlockByNumber", hex(number), False) for number in range(1, last + 1)]
        ours, theirs = (
            [block["hash"] for block in call_batch(url, *calls)]
            for url in (fetching.engine.http, net.node("sequencer")["engine"])
        )
        assert ours == theirs
        assert fetching.head("safe_l2") == 0, "no block was derived"

        def named() -> str | None:
            return next(
                (
                    unready_reason
                    for unready_reason in unready_reasons(alone.url)
                    if "EL-SYNC-STALLED" in unready_reason
                ),
                None,
            )

        reason = wait_for(named, f"the gap is named: {alone.program.out[-3000:]}")
        assert reason is not None
        assert "does not get blocks 1 to" in reason and "from its peers" in reason
        assert alone.head() == 0 and int(call(alone.engine.http, "eth_blockNumber"), 16) == 0
        for node in nodes:
            assert "missing block from peer" not in node.program.out and "a bug ends" not in node.program.out
    finally:
        for node in nodes:
            node.stop()
