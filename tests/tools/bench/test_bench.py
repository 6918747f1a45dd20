"""Every benchmark runs, with few of what it counts; what it measures is checked where it reckons or compares."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.blobs import kzg
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from rollup_node.tools.bench import (
    batches,
    chain_kills,
    derivation,
    http_client,
    interop_backfill,
    interop_rounds,
    p2p_gossip,
    p2p_latency,
    sequencing,
)
from rollup_node.tools.bench.drops import FLOODS, Flood, FloodRun
from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.network import READY_LINE
from rollup_node.tools.bench.race import library
from rollup_node.tools.devnet import child_programs
from rollup_node.tools.devnet import fork_server as servers
from rollup_node.tools.devnet.fork_server import ForkServer
from tests.ipc.messages import CHANNELS, ECHO, EchoRequest
from tests.support.processes.forked_programs import COMMANDS
from tests.support.timing.conditions import until

Main = Callable[[list[str]], object]

LABELS = {
    "unknown channel": "CA4 frame_without_channel",
    "other channel": "CA5 frame_of_other_channel",
    "repeated frames": "Q3b frame_out_of_order",
    "abandoned channels": "Q3c frame_of_unclosed_channel",
    "malformed items": "P2 frames_version_unknown",
    "past batches": "V3 timestamp_past",
    "refused batches": "BE6 span_transaction_invalid",
    "repeated frames before Holocene": "CB9.2 frame_duplicate",
    "closed channel before Holocene": "CB9.3 frame_beyond_end",
    "past batches before Holocene": "V3 timestamp_past",
}


@pytest.fixture
def programs_are_forked(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has networks that this process runs start their programs, nodes as well, by forks of the tests' server."""
    monkeypatch.setattr(chain_kills, "fork_server", lambda: nullcontext(fork_server))
    for module in (servers, child_programs):
        monkeypatch.setattr(module, "PROGRAMS", COMMANDS)


@pytest.mark.parametrize(
    ("main", "words", "lines"),
    [
        (http_client.main, "--calls 2 --runs 1", ["a JSON-RPC call over loopback"]),
        (
            chain_kills.main,
            "--chains 2 --kills 1 --every 2",
            ["1 kills of one chain's processes, 1 others", "time between safe heads, calm", "with 1 kills"],
        ),
        (
            interop_backfill.main,
            "--blocks 300 --logs 3",
            ["backfill of the interop process", "logs of 7 days, 2 chains of 2 s", "blocks read"],
        ),
        (
            interop_rounds.main,
            "--chains 2 --messages 4 --logs 3 --rounds 4",
            ["rounds of the interop verifier", "a round of 2 chains, 4 messages"],
        ),
        (
            library.main,
            "--l1-blocks 2 --repeats 1",
            [
                "The library and witnesses",
                "replay of 11 blocks",
                "rate of rollup_node.derive over replay's",
                "witness over replay",
                "import",
            ],
        ),
        (
            p2p_gossip.main,
            "--peers 30 --heartbeats 2 --blocks 2 --runs 1",
            ["gossip among 30 peers", "heartbeats, CPU"],
        ),
        (p2p_latency.main, "--runs 1 --blocks 3 --warm-up 0", ["gossip from socket to engine message", "of 100 KB"]),
        (
            sequencing.main,
            "--payloads 3 --runs 1 --blocks 13 --block-time 1 --l1-latency 0.05",
            ["engine process, at the wire", "slots missed with L1 answers after 50 ms"],
        ),
    ],
    ids=[
        "http_client",
        "chain_kills",
        "interop_backfill",
        "interop_rounds",
        "library",
        "p2p_gossip",
        "p2p_latency",
        "sequencing",
    ],
)
@pytest.mark.usefixtures("programs_are_forked")
def test_a_benchmark(main: Main, words: str, lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words.split())
    output = capsys.readouterr().out
    assert output.startswith(lines[0]) and all(line in output for line in lines)


def test_batches(shared_data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # The benchmark sets it for its process.
    monkeypatch.setattr(kzg, "setup_pays", kzg.setup_pays)
    batches.main([str(shared_data / "op_sepolia_replay"), "--runs", "1", "--warm-up", "0", "--first", "6582950"])
    assert capsys.readouterr().out.startswith("batches over L1 6582950 to 6582952")


def test_derivation(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    derivation.main([str(shared_data / "channels"), "--blocks", "20", "--long", "20", "--runs", "1"])
    assert "memory" in capsys.readouterr().out


@pytest.mark.parametrize("flood", FLOODS, ids=[flood.name for flood in FLOODS])
def test_each_flood_is_dropped_for_one_reason(flood: Flood) -> None:
    run = FloodRun(flood, 300)
    assert run.seconds() > 0
    ((label, count),) = run.drops.items()
    assert label == LABELS[flood.name]
    assert 298 <= count <= 305


def test_the_network_is_ready_by_the_log_of_its_supervisor() -> None:
    match = READY_LINE.search('t=2026-01-01T00:00:00 lvl=info msg="all 9 processes are ready" seconds=0.52')
    assert match is not None and match[1] == "0.52"


@pytest.mark.parametrize(
    ("figure", "code", "verdict"),
    [
        (Figure("a", "s", (1.0,), bound=1.0), 0, "bound 1: held"),
        (Figure("a", "s", (1.1,), bound=1.0), 1, "bound 1: MISSED"),
        (Figure("a", "x", (2.0,), floor=1.5), 0, "floor 1.5: held"),
        (Figure("a", "x", (1.4,), floor=1.5), 1, "floor 1.5: MISSED"),
    ],
)
def test_bounds_are_compared(figure: Figure, code: int, verdict: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert show("title", [figure]) == code
    assert verdict in capsys.readouterr().out


# --- several buses in one process -------------------------------------------------------------------------------------


def test_each_copy_of_a_role_has_a_bus_and_a_slot(tmp_path: Path) -> None:
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "worker": 2}, incarnation=5)
    assert {name: bus.process_id for name, bus in buses.items()} == {
        "server": ProcessId(0, 5),
        "worker": ProcessId(1, 5),
        "worker:1": ProcessId(2, 5),
    }
    liveness = buses["server"].transport.liveness
    assert all(bus.transport.liveness is liveness for bus in buses.values())
    assert [liveness.incarnation(slot) for slot in range(3)] == [5, 5, 5]
    for bus in buses.values():
        bus.close()


def test_the_shared_memory_is_freed_with_the_last_bus(tmp_path: Path) -> None:
    buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
    liveness = buses["server"].transport.liveness
    buses["server"].close()
    liveness.beat(0)
    buses["client"].close()
    with pytest.raises(ValueError, match="released"):
        liveness.beat(0)


async def test_buses_are_closed_when_the_body_raises(tmp_path: Path) -> None:
    with pytest.raises(LookupError):
        buses = in_process_buses(CHANNELS, tmp_path, {"server": 1, "client": 1})
        async with running_buses(buses):
            requests: list[EchoRequest] = []
            buses["server"].serve(ECHO, lambda client, message: requests.append(message))
            buses["client"].connect(ECHO, lambda message: None).send(EchoRequest(1))
            await until(lambda: requests)
            raise LookupError
    assert list(tmp_path.iterdir()) == []
