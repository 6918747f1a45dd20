"""A sequencer that follows another node instead of deriving, on a running network: it starts, takes over, builds, and
its blocks become safe by what the other node derives [FSR1, FSR9]."""

from collections.abc import Iterator
from functools import partial

import pytest

from rollup_node.tools.devnet.files import NetworkFiles
from tests.support.processes.extra_node import ExtraNode
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, call_batch, unready_reasons, wait_for

BLOCKS = 3


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network whose verifier derives."""
    with Devnet(module_leftovers, *CALLDATA) as running:
        running.wait_for_first_safe()
        yield running
        running.finish()


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
    node = ExtraNode(module_leftovers, net, peers, options, engine=("--el-sync-from", sequencer["engine"]))
    try:
        wait_for(lambda: node.head("safe_l2") >= 1, f"the source's safe head: {node.program.out[-3000:]}")
        assert set(node.processes()) == {"supervisor", "sweeper", "l1", "compute", "engine", "p2p", "rpc"}
        last = call(sequencer["rpc"], "admin_stopSequencer")
        wait_for(lambda: call(node.url, "optimism_syncStatus")["unsafe_l2"]["hash"] == last, "the last block")
        handed_over = node.head()
        call(node.url, "admin_startSequencer", last)
        end = handed_over + BLOCKS
        wait_for(lambda: node.head() >= end, f"it builds: {node.program.out[-3000:]}")
        for name in net.nodes:
            net.wait(partial(has_block, net, name, handed_over + 1), f"its blocks by gossip at the {name}")
        net.wait_for_safe(end)
        wait_for(lambda: node.head("safe_l2") >= end, f"its blocks are safe: {node.program.out[-3000:]}")
        wait_for(lambda: unready_reasons(node.url) == [], f"ready: {node.program.out[-3000:]}")
        calls = [("optimism_outputAtBlock", hex(number)) for number in range(end + 1)]
        ours, theirs = (call_batch(url, *calls) for url in (node.url, source))
        assert [our["outputRoot"] for our in ours] == [their["outputRoot"] for their in theirs]
        assert "a bug ends" not in node.program.out and "died" not in node.program.out
        back = call(node.url, "admin_stopSequencer")
        net.wait(
            lambda: net.sync_status("sequencer")["unsafe_l2"]["hash"] == back, "the network's sequencer has it all"
        )
        call(sequencer["rpc"], "admin_startSequencer", back)
    finally:
        node.stop()
