"""Peers join a running network late, with gaps in their chain, are killed, and are partitioned, and a sequencer that
follows another node takes over: all end with the sequencer's chain."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from functools import partial

import pytest

from rollup_node.tools.devnet.files import NetworkFiles
from tests.support.processes.extra_node import ExtraNode, assert_same_chain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import (
    CALLDATA,
    Devnet,
    Program,
    RpcError,
    assert_same_outputs,
    call,
    call_batch,
    unready_reasons,
)

LOOPBACK_NET = {"IP": "127.0.0.0", "Mask": "/wAAAA=="}
L1_CONFS = 100_000
"""More confirmations than L1 has blocks: derivation waits, so that all blocks come from peers."""
BLOCKS_BEFORE, BLOCKS_MEANWHILE, BUILT = 8, 3, 3


def unsafe(net: Devnet, name: str) -> int:
    """Return the number of a node's unsafe head."""
    return int(net.sync_status(name)["unsafe_l2"]["number"])


def wait_unsafe(net: Devnet, name: str, number: int) -> None:
    """Wait until a node's unsafe head has at least this number."""
    net.wait(lambda: unsafe(net, name) >= number, f"unsafe head {number} of the {name}")


def disconnected(url: str) -> bool:
    """Disconnects all peers of a node; whether it had none. A peer that is still connecting may appear later."""
    peers = list(call(url, "opp2p_peers", True)["peers"])
    for peer in peers:
        with suppress(RpcError):
            call(url, "opp2p_disconnectPeer", peer)
    return not peers


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network, which ends with equal output roots."""
    with Devnet(module_leftovers, *CALLDATA) as running:
        running.wait_for_first_safe()
        yield running
        assert "a bug ends" not in "".join(map(running.log, running.nodes))
        running.finish()


@pytest.fixture(scope="module")
def late(net: Devnet, module_leftovers: Leftovers) -> Iterator[ExtraNode]:
    """Yield a node that joins when the network has some blocks."""
    net.wait(lambda: unsafe(net, "sequencer") >= BLOCKS_BEFORE, f"{BLOCKS_BEFORE} unsafe blocks")
    node = ExtraNode(module_leftovers, net, net.node("sequencer")["p2p"], {"verifier.l1-confs": L1_CONFS})
    try:
        yield node
    finally:
        node.stop()


def test_a_late_verifier_gets_missing_blocks_from_peers(net: Devnet, late: ExtraNode) -> None:
    missing = unsafe(net, "sequencer")
    late.wait_for_head(missing)
    status = call(late.url, "optimism_syncStatus")
    assert status["safe_l2"]["number"] == 0, "no block was derived"
    assert_same_chain(net, late, missing)
    net.wait(lambda: "received missing block from peer" in late.program.out, "log line of a block from a peer")
    scores = next(iter(call(late.url, "opp2p_peers", True)["peers"].values()))["scores"]["reqResp"]
    assert scores["validResponses"] > 0 and scores["rejectedPayloads"] == 0


@pytest.mark.fault("F50")
def test_one_node_is_killed_and_another_partitioned(net: Devnet, late: ExtraNode) -> None:
    """The killed node continues its engine's chain; the partitioned one gets no unsafe blocks until it is unblocked."""
    url = net.node("verifier")["rpc"]
    late.kill()
    call(url, "opp2p_blockSubnet", LOOPBACK_NET)
    net.wait(lambda: disconnected(url), "disconnected peers")
    before = unsafe(net, "sequencer")
    net.wait(lambda: unsafe(net, "sequencer") >= before + BLOCKS_MEANWHILE, "blocks during the partition")
    assert call(url, "opp2p_peerStats")["connected"] == 0
    call(url, "opp2p_unblockSubnet", LOOPBACK_NET)
    late.start()
    now = unsafe(net, "sequencer")
    for name in net.nodes:
        wait_unsafe(net, name, now)
    net.wait(lambda: call(url, "opp2p_peerStats")["connected"] >= 1, "peer after the partition")
    late.wait_for_head(now)
    assert_same_chain(net, late, now)
    net.wait(lambda: unsafe(net, "verifier") >= unsafe(net, "sequencer") - 1, "tip of the partitioned node")


def test_the_doctor_finds_no_problem(net: Devnet, module_leftovers: Leftovers) -> None:
    for name in ("sequencer", "verifier"):
        url = net.node(name)["rpc"]
        net.wait(lambda url=url: call(url, "opp2p_peerStats")["blocksTopicV4"] >= 1, f"a peer of {name} on the topic")  # type: ignore[misc]
        expected = "blocks were published" if name == "sequencer" else "blocks from peers, the last"

        def says_so(url: str = url, expected: str = expected) -> bool:
            with Program(module_leftovers, "rollup_node", "p2p", "doctor", "--rpc", url) as doctor:
                ended = doctor.wait_for_exit()
            assert ended.code == 0 and "fault" not in ended.out, ended
            return expected in ended.out

        # The last test may have restarted its p2p process, which gets a block within seconds.
        net.wait(says_so, expected)


def test_a_stopped_p2p_process_is_restarted(net: Devnet) -> None:
    entry = net.process_entry("verifier", "p2p")
    os.kill(entry["pid"], signal.SIGSTOP)
    net.wait_for_restart("verifier", entry)
    wait_unsafe(net, "verifier", unsafe(net, "sequencer") + 1)


def test_engines_fetch_gaps_or_are_named(net: Devnet, module_leftovers: Leftovers) -> None:
    """Nodes that do not request blocks from peers are late and get gossip alone: an engine that has peers of its own
    fetches the gap, and one that has none is named [UNS6]."""
    net.wait(lambda: unsafe(net, "sequencer") >= BLOCKS_BEFORE, f"{BLOCKS_BEFORE} unsafe blocks")
    source, peer = ("--el-sync-from", net.node("sequencer")["engine"]), net.node("sequencer")["p2p"]
    options = {"p2p.sync.req-resp": "false", "verifier.l1-confs": L1_CONFS}
    fetching = ExtraNode(module_leftovers, net, peer, options, "fetching", source)
    numbers = {"rollup_node.stages.engine.core.unsafe_rows.SHOW_SECONDS": 4.0}
    alone = ExtraNode(module_leftovers, net, peer, options, "alone", numbers=numbers)
    nodes = fetching, alone
    try:
        missing = unsafe(net, "sequencer")
        fetching.wait_for_head(missing)
        last = fetching.head()
        fetching.wait_for_head(last + 1)
        calls = [("eth_getBlockByNumber", hex(number), False) for number in range(1, last + 1)]
        ours, theirs = (
            [block["hash"] for block in call_batch(url, *calls)]
            for url in (fetching.engine.http, net.node("sequencer")["engine"])
        )
        assert ours == theirs
        assert fetching.head("safe_l2") == 0, "no block was derived"

        named = re.compile("EL-SYNC-STALLED.*does not get blocks 1 to.*from its peers")
        alone.wait(lambda: any(map(named.search, unready_reasons(alone.url))), "the gap is named")
        assert alone.head() == 0 and int(call(alone.engine.http, "eth_blockNumber"), 16) == 0
        for node in nodes:
            assert "missing block from peer" not in node.program.out and "a bug ends" not in node.program.out
    finally:
        for node in nodes:
            node.stop()


def has_block(net: Devnet, name: str, number: int) -> bool:
    """Whether a node's unsafe head has at least that number."""
    return bool(net.sync_status(name)["unsafe_l2"]["number"] >= number)


def test_a_sequencer_that_follows_takes_over(net: Devnet, module_leftovers: Leftovers) -> None:
    sequencer, source = net.node("sequencer"), net.node("verifier")["rpc"]
    options = {
        "l2.follow.source": source,
        "sequencer.enabled": "true",
        "sequencer.stopped": "true",
        "sequencer.l1-confs": 1,
        "rpc.enable-admin": "true",
        "p2p.sequencer.key": NetworkFiles(net.root).signer_key.read_text().strip(),
    }
    peers = ",".join(net.node(name)["p2p"] for name in net.nodes)
    node = ExtraNode(module_leftovers, net, peers, options, "following", ("--el-sync-from", sequencer["engine"]))
    try:
        node.wait_for_head(1, "safe_l2")
        assert set(node.processes()) == {"supervisor", "sweeper", "l1", "compute", "engine", "p2p", "rpc"}
        last = call(sequencer["rpc"], "admin_stopSequencer")
        node.wait(lambda: call(node.url, "optimism_syncStatus")["unsafe_l2"]["hash"] == last, "the last block")
        handed_over = node.head()
        call(node.url, "admin_startSequencer", last)
        end = handed_over + BUILT
        node.wait_for_head(end)
        for name in net.nodes:
            net.wait(partial(has_block, net, name, handed_over + 1), f"its blocks by gossip at the {name}")
        net.wait_for_safe(end)
        node.wait_for_head(end, "safe_l2")
        node.wait_until_ready()
        assert_same_outputs(node.url, source, end)
        assert "a bug ends" not in node.program.out and "died" not in node.program.out
        back = call(node.url, "admin_stopSequencer")
        net.wait(
            lambda: net.sync_status("sequencer")["unsafe_l2"]["hash"] == back, "the network's sequencer has it all"
        )
        call(sequencer["rpc"], "admin_startSequencer", back)
    finally:
        node.stop()
