"""A local network with a conductor and without a batcher: one of the user's is attached to it, and a sequencer that is
killed is started again."""

import os
import signal

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, Program, call

BLOBS = {"eth_blobBaseFee": [], "eth_feeHistory": ["0x1", "latest", [10]], "eth_newBlockFilter": []}


def test_a_batcher_of_the_user_a_killed_sequencer_and_engines_over_ipc(leftovers: Leftovers) -> None:
    """[WSK7, OPT13] Nodes reach their engines over IPC, also one that has started again."""
    with Devnet(leftovers, "--no-batcher", "--conductor", "--ipc", *CALLDATA, json=False) as net:
        net.wait(lambda: net.sync_status("verifier")["unsafe_l2"]["number"] >= 2, "gossiped blocks")
        about, engine = net.network, net.node("sequencer")["engine"]
        assert "batcher" not in about["pids"] and not (net.root / "batcher.log").exists()
        assert net.safe_number("sequencer") == 0
        for method, params in BLOBS.items():
            assert call(about["l1"], method, *params) and call(engine, method, *params)
        assert call(engine, "miner_setMaxDASize", "0x0", "0x20000") is True
        options = {"l1": about["l1"], "engine": engine, "node": net.node("sequencer")["rpc"], "da": "calldata"}
        options |= {"rollup": about["rollup"], "key-file": about["batcher_key"]}
        options |= {"state-file": str(leftovers.folder / "state.json")}
        words = [f"--{name}={value}" for name, value in options.items()]
        with Program(leftovers, "rollup_node.tools.batcher", *words) as batcher:
            net.wait_for_safe(2)
            before = net.process_entry("sequencer", "supervisor")["pid"]
            os.kill(before, signal.SIGKILL)
            net.wait(lambda: net.process_entry("sequencer", "supervisor")["pid"] != before, "another supervisor")
            number = net.sync_status("verifier")["unsafe_l2"]["number"]
            assert (net.root / "verifier-engine.ipc").is_socket()
            os.kill(about["pids"]["verifier engine"], signal.SIGKILL)
            net.wait_for_safe(number + 2)
            ended = net.stop()
            assert batcher.running
    assert (ended.code, ended.err) == (0, ""), ended
    lines = ended.out.splitlines()
    assert lines[0] == f"starting the network in {net.root}" and lines[1].startswith(
        f"L1 {about['l1']}  sequencer http"
    )
    assert any("verifier unsafe/safe/finalized " in line and "  batches " in line for line in lines[2:])
    assert any(line.startswith("no batcher runs: attach one by ") for line in lines)
    assert "sequencer leads and was started at block 0" in lines
    assert "sequencer node exited (signal SIGKILL) and was started again" in lines
    assert " blocks, output roots equal on all nodes; safe " in lines[-1]
