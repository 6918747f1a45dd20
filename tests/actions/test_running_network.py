"""Operations on a running network, whose nodes have the base installation alone: queries of both nodes, stop and start
of the sequencer, a derivation reset, a stopped devnet command, and a second command in its directory."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.protocol.config_json import parse_rollup_config
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.tools.importers.dashboard import expressions
from tests.support.foreign.op_node_types import RESULTS, TEST_SEQUENCER, MismatchError, check_result
from tests.support.processes.base_installation import block_extras
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, RpcError, call, http_get
from tests.support.rpc.prometheus import selectors
from tests.support.servers.trace_collector import Spans, TraceCollector

IDLE_L1_BLOCKS = 3
WAY = {"l1.block": "l1", "blobs": "blobs", "derivation.block": "derivation"}
ROLES = ("l1", "blobs", "derivation", "compute-0", "engine", "p2p", "rpc")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that lets the nodes import nothing but the base installation."""
    folder = tmp_path_factory.mktemp("base")
    block_extras(folder)
    return folder


@pytest.fixture(scope="module")
def collector() -> Iterator[TraceCollector]:
    """Yield the collector to which the network sends its traces."""
    with TraceCollector().running() as running:
        yield running


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers, base: Path, collector: TraceCollector) -> Iterator[Devnet]:
    """Yield a network for all tests of the module, which ends with equal output roots."""
    environment: dict[str, Any] = {"PYTHONPATH": str(base), OPTIONS["tracing.otlp-endpoint"].variable: collector.url}
    with Devnet(module_leftovers, **environment) as running:
        running.wait_for_first_safe()
        yield running
        running.wait(
            lambda: min(running.finalized_number(name) for name in running.nodes) > 0, "finality on both nodes"
        )
        result = running.finish()
    assert set(result) == {"blocks", "safe", "finalized", "output_roots_equal", "seconds", "processes"}
    assert result["safe"] >= result["finalized"] > 0 and result["seconds"] > 0


def ask(net: Devnet, name: str, method: str, *params: Any) -> Any:
    return call(net.node(name)["rpc"], method, *params)


def refused(net: Devnet, name: str, method: str, *params: Any) -> str:
    """Return the error message of a call."""
    with pytest.raises(RpcError) as refusal:
        ask(net, name, method, *params)
    return refusal.value.message


def log_has(net: Devnet, name: str, text: str) -> bool:
    return text in net.log(name)


def wait_active(net: Devnet, active: bool) -> None:
    """Wait until admin_sequencerActive has this value: it follows the engine's status with a delay."""
    net.wait(lambda: ask(net, "sequencer", "admin_sequencerActive") is active, f"sequencer active: {active}")


def unsafe(net: Devnet) -> dict[str, Any]:
    """Return the sequencer's unsafe head."""
    result: dict[str, Any] = net.sync_status("sequencer")["unsafe_l2"]
    return result


def test_network_json_lists_urls_files_and_pids(net: Devnet) -> None:
    network = net.network
    files = {"jwt", "rollup", "l2_genesis", "batcher_key"}
    assert set(network) == {"l1", "beacon", "games", "anchor", *files, "nodes", "pids"}
    assert int(call(network["l1"], "eth_chainId"), 16) == 900
    assert http_get(network["beacon"] + "/eth/v1/beacon/genesis")[0] == 200
    for name in net.nodes:
        node = net.node(name)
        assert int(call(node["engine"], "eth_chainId"), 16) == 901
        assert http_get(node["engine_auth"])[0] in (401, 405)
        roles = {entry["role"] for entry in net.processes(name).values()}
        assert roles == {"supervisor", "sweeper", "l1", "blobs", "derivation", "compute", "engine", "p2p", "rpc"}
        assert net.processes(name)["supervisor"]["pid"] == network["pids"][f"{name} node"]
    for pid in network["pids"].values():
        os.kill(pid, 0)
    with open(network["jwt"]) as file:
        assert len(file.read().strip()) == 64


def test_the_nodes_need_no_extra(net: Devnet, base: Path) -> None:
    """All that this module shows, they do with the packages of the base installation."""
    for name in net.nodes:
        assert (base / str(net.process_entry(name, "supervisor")["pid"])).exists()
    command = [sys.executable, "-c", "import rich", "rollup_node"]
    ended = subprocess.run(command, env={"PYTHONPATH": str(base)}, capture_output=True, text=True)
    assert ended.returncode == 1 and "No module named 'rich'" in ended.stderr


@pytest.mark.parametrize("name", Devnet.nodes)
def test_read_methods(net: Devnet, name: str) -> None:
    ours = json.loads((net.root / "rollup.json").read_text())
    assert ask(net, name, "optimism_dependencySet") == {"dependencies": {"901": {}}}
    config = ask(net, name, "optimism_rollupConfig")
    assert config["genesis"]["l1"] == ours["genesis"]["l1"] and config["genesis"]["l2"] == ours["genesis"]["l2"]
    names = ("block_time", "seq_window_size", "l1_chain_id", "l2_chain_id", "batch_inbox_address", "jovian_time")
    assert {key: config[key] for key in names} == {key: ours[key] for key in names}
    version = ask(net, name, "optimism_version")
    assert re.fullmatch(r"v\d+\.\d+\.\d+.*", version)
    status, text = http_get(net.node(name)["rpc"] + "/healthz")
    assert (status, json.loads(text)) == (200, {"version": version})
    heads = net.sync_status(name)
    assert heads["finalized_l2"]["number"] <= heads["safe_l2"]["number"] <= heads["unsafe_l2"]["number"]
    net.wait(lambda: net.is_ready(name), f"ready {name}")
    assert refused(net, name, "optimism_outputAtBlock", hex(1 << 40)) != ""
    assert "optimism_nothing" in refused(net, name, "optimism_nothing")


@pytest.mark.option("tracing.otlp-endpoint")
def test_the_way_of_a_block_is_one_trace(net: Devnet, collector: TraceCollector) -> None:
    """The collector gets the way of an L1 block through all processes, and calls to the RPC server [TRC2]."""

    def names(spans: Spans) -> set[str]:
        return {span["name"] for span in spans}

    def ways() -> list[Spans]:
        return [spans for spans in collector.traces if WAY.keys() <= names(spans)]

    def calls() -> Spans:
        return [span for spans in collector.traces for span in spans if span["name"].startswith("rpc ")]

    net.wait(lambda: any(name.startswith("engine.") for spans in ways() for name in names(spans)), "a way to an engine")
    for spans in ways():
        # Both nodes are there, each with a first span of its own.
        for node in {span["service.instance.id"] for span in spans}:
            own = [span for span in spans if span["service.instance.id"] == node]
            roots = {span["spanId"] for span in own if span["name"] == "l1.block"}
            assert {span.get("parentSpanId") for span in own if span["name"] != "l1.block"} <= roots or not roots
        assert {span["name"]: span["process"] for span in spans if span["name"] in WAY} == WAY
        assert {span["process"] for span in spans if span["name"].startswith("engine.")} <= {"engine"}
        assert all(int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) for span in spans)
    net.wait(lambda: "rpc optimism_syncStatus" in names(calls()), "a call in a trace")
    assert {span["process"] for span in calls()} == {"rpc"} and {span["kind"] for span in calls()} == {2}


def test_the_nodes_agree_on_the_safe_head_at_each_l1_block(net: Devnet) -> None:
    """Each has recorded what it derived: from genesis on, and blocks of the chain.

    What is recorded for L1 blocks below `current_l1` does not change any more [SDB2, SDB5, SDB8, SDB13]."""

    def recorded() -> list[dict[str, Any]]:
        """Of all L1 blocks that both nodes have derived, once a safe head after genesis is among them."""
        heads = net.recorded_safe_heads()
        return heads if heads[-1]["safeHead"]["number"] > 0 else []

    result = net.wait(recorded, "both nodes have recorded a safe head after genesis")
    genesis = ask(net, "sequencer", "optimism_rollupConfig")["genesis"]["l2"]
    assert result[0]["safeHead"] == genesis
    engine = net.node("verifier")["engine"]
    for number, item in enumerate(result):
        for url, block in ((net.network["l1"], item["l1Block"]), (engine, item["safeHead"])):
            assert call(url, "eth_getBlockByNumber", hex(block["number"]), False)["hash"] == block["hash"]
        assert item["l1Block"]["number"] <= number
    heads = [item["safeHead"]["number"] for item in result]
    assert heads == sorted(heads)


def test_super_roots_as_a_challenger_reads_them(net: Devnet) -> None:
    """A block that is not in an answer becomes safe at its `current_l1` or later, never below it, and then both nodes
    have the same answer, whose L1 block is the first with that safe head [RPC41, RPC43, RPC43a, RPC44]."""
    start = net.sync_status("verifier")["unsafe_l2"]
    config = ask(net, "verifier", "optimism_rollupConfig")
    time, current, read = start["timestamp"] + config["block_time"], 0, 0

    def answered(name: str) -> Any:
        """Return the data of the next block, once it is safe."""
        nonlocal current, read
        result = ask(net, name, "superroot_atTimestamp", hex(time))
        if "data" not in result:
            assert result["optimistic_at_timestamp"] == {}
            current, read = max(current, result["current_l1"]["number"]), read + 1
        return result.get("data")

    data = net.wait(lambda: answered("verifier"), "the super root of a block that was not safe")
    required = data["verified_required_l1"]["number"]
    assert read > 0 and current <= required
    assert net.wait(lambda: answered("sequencer"), "the same super root") == data
    for number, safe in ((required, True), (required - 1, False)):
        head = ask(net, "verifier", "optimism_safeHeadAtL1Block", hex(number))["safeHead"]["number"]
        assert (head > start["number"]) is safe
    genesis = ask(net, "verifier", "superroot_atTimestamp", hex(config["genesis"]["l2_time"]))
    assert genesis["data"]["verified_required_l1"]["number"] == 0
    assert "genesis time" in refused(net, "verifier", "superroot_atTimestamp", hex(config["genesis"]["l2_time"] - 1))


def test_outputs_agree_with_the_engine(net: Devnet) -> None:
    number = net.safe_number()
    result = [ask(net, name, "optimism_outputAtBlock", hex(number)) for name in net.nodes]
    for key in ("outputRoot", "stateRoot", "withdrawalStorageRoot", "blockRef", "version"):
        assert result[0][key] == result[1][key]
    block = call(net.node("verifier")["engine"], "eth_getBlockByNumber", hex(number), False)
    assert result[1]["stateRoot"] == block["stateRoot"] and result[1]["blockRef"]["hash"] == block["hash"]
    assert result[1]["withdrawalStorageRoot"] == block["withdrawalsRoot"], "since Isthmus"


def first_block(net: Devnet) -> dict[str, Any]:
    """Return the envelope of block 1."""
    config = parse_rollup_config((net.root / "rollup.json").read_bytes()).config

    async def read() -> ExecutionPayload | None:
        client = EngineClient(net.node("sequencer")["engine"], None, 5.0, config)
        try:
            return await client.payload(1)
        finally:
            await client.close()

    payload = asyncio.run(read())
    assert payload is not None
    return envelope_to_json(payload)


def test_results_have_op_node_s_types(net: Devnet) -> None:
    """Every method of op-node is called; what blocks or moves something is undone."""
    other = ask(net, "sequencer", "opp2p_self")
    peer, address, elsewhere = other["peerID"], other["addresses"][0], {"IP": "10.1.0.0", "Mask": "//8AAA=="}
    stranger = "16Uiu2HAm" + "7" * 44
    called = set()

    def checked(name: str, method: str, *params: Any) -> Any:
        result = ask(net, name, method, *params)
        check_result(method, result)
        called.add(method)
        return result

    for method in ("syncStatus", "rollupConfig", "dependencySet", "version"):
        checked("verifier", f"optimism_{method}")
    checked("verifier", "optimism_outputAtBlock", "0x0")
    checked("verifier", "optimism_safeHeadAtL1Block", "0x1")
    for method in ("health_status", "rpc_modules", "admin_sequencerActive", "admin_conductorEnabled"):
        checked("verifier", method)
    checked("sequencer", "admin_startSequencer", checked("sequencer", "admin_stopSequencer"))
    checked("sequencer", "admin_overrideLeader")
    checked("sequencer", "admin_setRecoverMode", False)
    checked("verifier", "admin_resetDerivationPipeline")
    checked("verifier", "admin_setLogLevel", "info")
    checked("verifier", "admin_postUnsafePayload", first_block(net))
    for method in ("self", "peerStats"):
        checked("verifier", f"opp2p_{method}")
    checked("verifier", "opp2p_peers", True)
    assert checked("verifier", "opp2p_peers", False)["peers"]
    for kind, value, what in (
        ("Peer", stranger, "Peers"),
        ("Addr", "10.0.0.1", "Addrs"),
        ("Subnet", elsewhere, "Subnets"),
    ):
        checked("verifier", f"opp2p_block{kind}", value)
        assert checked("verifier", f"opp2p_listBlocked{what}") == [value]
        checked("verifier", f"opp2p_unblock{kind}", value)
        assert checked("verifier", f"opp2p_listBlocked{what}") == []
    for method, value in (
        ("protectPeer", peer),
        ("unprotectPeer", peer),
        ("disconnectPeer", peer),
        ("connectPeer", address),
    ):
        checked("verifier", f"opp2p_{method}", value)
    checked("verifier", "opp2p_discoveryTable")
    assert called == set(RESULTS).difference(TEST_SEQUENCER)
    with pytest.raises(MismatchError, match="number: '1' is not a number"):
        check_result(
            "optimism_safeHeadAtL1Block", {"l1Block": {"hash": "0x" + "00" * 32, "number": "1"}, "safeHead": {}}
        )
    with pytest.raises(MismatchError, match=r"without \['other'\]"):
        check_result("optimism_syncStatus", {**net.sync_status("verifier"), "other": 1})


def test_the_verifier_has_blocks_before_they_are_safe(net: Devnet) -> None:
    """Unsafe blocks come by gossip, not by derivation."""

    def follows(head: dict[str, Any]) -> bool:
        heads = net.sync_status("verifier")
        number = int(heads["unsafe_l2"]["number"])
        return number > int(heads["safe_l2"]["number"]) and number >= int(head["number"])

    def has_next(head: dict[str, Any]) -> bool:
        return int(unsafe(net)["number"]) > int(head["number"])

    head = unsafe(net)
    net.wait(partial(follows, head), "unsafe block of the sequencer")
    net.wait(partial(has_next, head), "next unsafe block")


def test_the_nodes_are_each_others_peers(net: Devnet) -> None:
    def has_peer(name: str) -> bool:
        return bool(ask(net, name, "opp2p_peerStats")["blocksTopicV4"] == 1)

    ids = {name: ask(net, name, "opp2p_self")["peerID"] for name in net.nodes}
    for name in net.nodes:
        net.wait(partial(has_peer, name), f"peer of the {name}")
    for name, other in zip(net.nodes, reversed(net.nodes), strict=True):
        peers = ask(net, name, "opp2p_peers", True)
        assert peers["totalConnected"] == 1 and list(peers["peers"]) == [ids[other]]
        peer = peers["peers"][ids[other]]
        assert peer["gossipBlocks"] and peer["connectedness"] == 1 and peer["scores"]["gossip"]["total"] >= 0
        assert all(text.startswith("/ip4/127.0.0.1/tcp/") for text in peer["addresses"])
        stats = ask(net, name, "opp2p_peerStats")
        assert (stats["connected"], stats["blocksTopicV4"], stats["banned"]) == (1, 1, 0)
        assert refused(net, name, "opp2p_blockPeer", "unknown").startswith(
            "invalid argument 0: failed to parse peer ID"
        )


def test_the_log_level_is_changed_in_a_running_node(net: Devnet) -> None:
    assert "lvl=debug" not in net.log("verifier")
    assert ask(net, "verifier", "admin_setLogLevel", "debug") is None
    for role in ("engine", "derivation"):
        line = f"lvl=debug process={role}"
        net.wait(partial(log_has, net, "verifier", line), line)
    assert ask(net, "verifier", "admin_setLogLevel", "info") is None
    assert refused(net, "verifier", "admin_setLogLevel", "loud") == "unknown level: loud"


@pytest.mark.parametrize("name", Devnet.nodes)
def test_metrics_of_all_processes(net: Devnet, name: str) -> None:
    shown = [rf'process_up{{process="{role}"}} 1\.0' for role in ROLES]
    shown += [
        r'op_node_default_refs_number{layer="l2",type="l2_safe"} [1-9]\d*\.0',
        r'op_node_default_derived_batches_total{type="span"} [1-9]\d*\.0',
        r"op_node_default_frame_added_total [1-9]\d*\.0",
        r'op_node_default_rpc_server_requests_total{.*method="optimism_syncStatus".*} [1-9]\d*\.0',
        r'op_node_default_l1_source_cache_size{type="blobs"} [1-9]\d*\.0',
        r"op_node_default_p2p_peer_count 1\.0",
        r'op_node_default_p2p_gossip_events_total{type="DELIVER_MESSAGE"} [1-9]\d*\.0',
    ]
    for line in shown:

        def exposed(line: str = line) -> bool:
            status, text = http_get(net.node(name)["metrics"] + "/metrics")
            assert status == 200
            return re.search(f"^{line}$", text, re.MULTILINE) is not None

        net.wait(exposed, f"metric {line}")


@pytest.mark.parametrize("name", Devnet.nodes)
def test_no_panel_of_the_dashboard_is_without_metrics(net: Devnet, name: str) -> None:
    wanted = {selector.name for expression in expressions() for selector in selectors(expression)}

    def missing() -> set[str]:
        status, text = http_get(net.node(name)["metrics"] + "/metrics")
        assert status == 200
        return wanted - set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE))

    net.wait(lambda: not missing(), "all metrics of the dashboard")


def test_transfers_and_deposits_succeed(net: Devnet) -> None:
    """Transfers and deposits of the network's traffic succeed on the safe chain."""
    kinds: dict[str, int] = {}
    read = 0

    def all_seen() -> bool:
        nonlocal read
        while read < net.safe_number():
            read += 1
            for receipt in call(net.node("verifier")["engine"], "eth_getBlockReceipts", hex(read)):
                assert receipt["status"] == "0x1"
                kinds[receipt["type"]] = kinds.get(receipt["type"], 0) + 1
        return kinds.get("0x2", 0) > 0 and kinds["0x7e"] > read

    net.wait(all_seen, "transfer and deposit besides the L1 attributes")


@pytest.mark.fault("F54")
def test_the_sequencer_is_stopped_and_started(net: Devnet) -> None:
    def l1_head() -> int:
        return int(call(net.network["l1"], "eth_blockNumber"), 16)

    assert ask(net, "sequencer", "admin_sequencerActive") is True
    stopped = ask(net, "sequencer", "admin_stopSequencer")
    wait_active(net, False)
    net.wait(lambda: unsafe(net)["hash"] == stopped, "last block as unsafe head")
    head = unsafe(net)
    assert refused(net, "sequencer", "admin_stopSequencer") == "sequencer not running"
    net.kill_process("sequencer", "engine")
    restarted_at = l1_head()
    net.wait(lambda: l1_head() >= restarted_at + IDLE_L1_BLOCKS, f"{IDLE_L1_BLOCKS} L1 blocks")
    net.wait(lambda: unsafe(net)["number"], "heads of the restarted engine process")
    assert unsafe(net) == head, "blocks were built after the stop or the restart"
    wait_active(net, False)
    assert "block hash does not match" in refused(net, "sequencer", "admin_startSequencer", "0x" + "12" * 32)
    ask(net, "sequencer", "admin_startSequencer", stopped)
    wait_active(net, True)
    assert refused(net, "sequencer", "admin_startSequencer", stopped) == "sequencer already running"
    net.wait(lambda: unsafe(net)["number"] > head["number"] + 1, "new unsafe blocks")
    net.wait_for_safe(head["number"] + 1)


@pytest.mark.parametrize("name", Devnet.nodes)
def test_derivation_is_reset(net: Devnet, name: str) -> None:
    before = net.safe_number(name)
    resets = net.log(name).count('msg="starting derivation"')
    ask(net, name, "admin_resetDerivationPipeline")
    net.wait(lambda: net.log(name).count('msg="starting derivation"') > resets, "restart of derivation")
    net.wait_for_safe(before + 2, name)
    net.wait(lambda: net.is_ready(name), f"ready {name}")


def test_directory_and_ports_are_in_use(net: Devnet, module_leftovers: Leftovers) -> None:
    def end(*words: str) -> str:
        with Program(module_leftovers, "rollup_node", "devnet", "--blocks", "1", "--json", *words) as other:
            return other.wait_for_exit().error_line()

    assert end("--data-dir", str(net.root)) == (
        f"error: --data-dir {net.root}: another network runs in it; stop that one or give another directory"
    )
    port = urlsplit(net.network["l1"]).port
    assert port is not None
    assert end("--base-port", str(port)) == (
        f"error: port {port} is in use; give another --base-port (19 ports in a row are needed) or 0"
    )
    assert net.running


def test_the_nodes_run_while_the_command_is_stopped(net: Devnet) -> None:
    net.process.send_signal(signal.SIGSTOP)
    before = net.safe_number()
    try:
        net.wait_for_safe(before + 2)
    finally:
        net.process.send_signal(signal.SIGCONT)
