"""A race over a small course, the figures at its tip, real engines, and what ends a run without figures."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from rollup_node.tools.bench.race import executed
from rollup_node.tools.bench.race.call_clock import CallClock
from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import KINDS, CourseFiles, CourseSize
from rollup_node.tools.bench.race.engine_relay import EngineRelay
from rollup_node.tools.bench.race.executed import FreshEngine
from rollup_node.tools.bench.race.http_server import message_body, message_end
from rollup_node.tools.bench.race.l1_blocks import make_l1_block
from rollup_node.tools.bench.race.node_run import RaceError, run_tip, running
from rollup_node.tools.bench.race.plain_client import EngineError
from rollup_node.tools.bench.race.programs import RaceProgram, limit, rollup_node, supernode
from rollup_node.tools.bench.race.report import chain_figures, figures
from rollup_node.tools.bench.race.runner import run_once
from rollup_node.tools.bench.race.server import LastSafe
from rollup_node.tools.devnet.ports import LOOPBACK, reserved_numbers
from tests.conftest import ROOT
from tests.support.foreign.op_programs import find_program
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.loopback import free_port, own_address

FOLLOWER = RaceProgram(
    "follower",
    lambda course, place: [
        *("/usr/bin/env", "-C", str(ROOT), sys.executable, "-m", "tests.support.servers.course_follower"),
        *(place.servers.l1, place.servers.engine, str(place.rpc_port), str(course.rollup.parent)),
    ],
)
SMALL = CourseSize(
    l1_blocks=12,
    transactions=20,
    deposits=6,
    l2_blocks=40,
    l2_transactions=4,
    blocks_per_channel=24,
    blocks_per_span=12,
    garbage=2,
    fork_blocks=8,
)
WRONG = """
import json, signal, sys, urllib.request
url, head, attributes = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
state = {f"{label}BlockHash": head for label in ("head", "safe", "finalized")}
body = {"jsonrpc": "2.0", "id": 1, "method": "engine_forkchoiceUpdatedV3", "params": [state, attributes]}
urllib.request.urlopen(url, json.dumps(body).encode()).read()
signal.pause()
"""


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CourseFiles]:
    """Yield the files of a course small enough for tests."""
    folder = tmp_path_factory.mktemp("course")
    prepare(folder, SMALL)
    with closing(CourseFiles(folder)) as files:
        yield files


def test_a_race(course: CourseFiles, leftovers: Leftovers) -> None:
    """The run itself checks every attribute and the safe head that the node reports."""
    sizes = msgspec.structs.asdict(course.facts.size).items()
    arguments = [*(f"--{name.replace('_', '-')}={value}" for name, value in sizes), "--json"]
    arguments += [f"--course={course.rollup.parent}", "--latency=5", "--runs=1", "--warm-up=0", "--timeout=50"]
    command = [sys.executable, "-m", "rollup_node.tools.bench.race", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=58, cwd=leftovers.folder, env=leftovers.environment()
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["by_latency"]["5"]["runs"] == 1
    calls = figures["engine_calls"]
    assert 0 < calls["engine_newPayloadV4"] < calls["engine_newPayloadV4"] + calls["engine_newPayloadV3"] == 40
    assert 3 <= figures["engine_calls_per_block"] <= 5 and 1 <= figures["l1_requests"] <= 60
    assert 0 < figures["first_l1_request_s"] < figures["first_attributes_s"] < figures["end_s"]
    assert figures["cpu_s"] > 0.5 and figures["pss_mb"] > 20
    assert figures["l1_calls_made"] == sum(figures["l1_calls"].values()) >= figures["l1_requests"]
    assert 0 < figures["engine_busy_percent"] < 100
    assert 0 < figures["answer_to_call_p50_ms"] <= figures["answer_to_call_p99_ms"]


def test_several_chains_against_one(tmp_path: Path, leftovers: Leftovers) -> None:
    """The supernode derives both chains from the same L1 blocks, which are fetched once."""
    folder = tmp_path / "course"
    prepare(folder, msgspec.structs.replace(SMALL, chains=2))
    with closing(CourseFiles(folder)) as course:
        assert [chain.config.l2_chain_id for chain in (course, *course.further)] == [901, 902]
        one, both = (run_once(course, program([]), 0.0, 0, 25.0) for program in (rollup_node, supernode))
        sizes = course.facts.size
    assert both.counted.engine_calls["engine_newPayloadV4"] == 2 * one.counted.engine_calls["engine_newPayloadV4"]
    full = "eth_getBlockByNumber full"
    assert both.counted.l1_calls[full] == one.counted.l1_calls[full] == SMALL.l1_blocks + 1
    names = [figure.name for figure in chain_figures([both], [one], sizes)]
    assert names == ["blocks per second in sum", "L1 calls", "L1 bytes", "memory of a further chain (PSS)"]


def test_the_tip(course: CourseFiles) -> None:
    run = run_tip(course, FOLLOWER, 0.2, 3)
    assert run.l1_blocks == 3 and 1 <= run.l1_requests_per_block <= 6


@pytest.mark.parametrize(
    ("script", "seconds", "text"),
    [
        ("print('no such option'); raise SystemExit(3)", 30.0, "odd has ended with code 3.*no such option"),
        ("import signal; signal.pause()", 0.0, "odd has not reached the end of the course in time"),
        (WRONG, 30.0, "odd derives something else: block 1 has other timestamp"),
    ],
)
def test_a_run_without_figures(course: CourseFiles, script: str, seconds: float, text: str) -> None:
    attributes = json.loads(course.body("l2/1/attributes")) | {"timestamp": "0x5"}
    words = [course.facts.l2_hashes[0], json.dumps(attributes)]
    program = RaceProgram("odd", lambda _, place: [sys.executable, "-c", script, place.servers.engine, *words])
    with pytest.raises(RaceError, match=f"(?s){text}"), running(course, program, [], seconds) as node:
        node.next(LastSafe)


# --- full L1 blocks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "gas_limit", "least", "most"),
    [("2023", 45_000_000, 0.35, 0.5), ("full60", 60_000_000, 0.7, 0.85), ("full200", 195_000_000, 0.97, 1.0)],
)
def test_l1_blocks_have_the_receipts_and_blooms_of_their_time(
    kind: str, gas_limit: int, least: float, most: float
) -> None:
    transactions = KINDS[kind].transactions
    block = make_l1_block(None, 5, 1_700_000_000, bytes(32), transactions, ())
    header = json.loads(block.full)
    assert int(header["gasLimit"], 16) == gas_limit >= int(header["gasUsed"], 16)
    assert len(header["transactions"]) == len(json.loads(block.receipts)) == transactions
    assert 2.4 <= len(block.logs) / transactions <= 2.6
    assert least <= int(header["logsBloom"], 16).bit_count() / 2048 <= most


def test_a_block_with_batches_has_the_blobs_of_others_too(tmp_path: Path) -> None:
    facts = prepare(tmp_path, msgspec.structs.replace(SMALL, blobs=4, sidecars=0))
    assert {len(hashes) for hashes in facts.blobs.values()} == {4}
    with closing(CourseFiles(tmp_path)) as files:
        assert all(files.body(f"blob/{name}") for hashes in facts.blobs.values() for name in hashes)


# --- real engines -----------------------------------------------------------------------------------------------------

EXECUTED = CourseSize(
    l1_blocks=8,
    transactions=5,
    deposits=4,
    l2_blocks=18,
    l2_transactions=3,
    blocks_per_channel=9,
    blocks_per_span=9,
    sidecars=0,
    executed=1,
)
GETH_FLAGS = "--gcmode archive --syncmode full --nodiscover --maxpeers 0 --port 0 --ipcdisable --authrpc.addr 127.0.0.1"


def fresh_engine(name: str, port: int) -> FreshEngine:
    """Return an engine of that name at a port. Skips the test where it is not installed."""
    if name == "embedded":
        module = f"/usr/bin/env -C {ROOT} {sys.executable} -m rollup_node.tools.devnet.engine"
        command = f'exec {module} --genesis "$GENESIS" --jwt "$JWT" --http 0 --auth {port}'
    else:
        binary = find_program(name)
        start = f'exec {binary} --datadir data {GETH_FLAGS} --authrpc.port {port} --authrpc.jwtsecret "$JWT"'
        command = f'{binary} init --state.scheme=hash --datadir data "$GENESIS" && {start}'
    return FreshEngine(f"http://{LOOPBACK}:{port}", command)


@pytest.mark.parametrize("name", ["embedded", "op-geth"])
def test_an_executed_course(name: str, tmp_path: Path, leftovers: Leftovers) -> None:
    """The engine that made it takes its blocks again, from the plain client and from the node."""
    with reserved_numbers(0, 1) as (port,):
        engine = fresh_engine(name, port)
        prepare(tmp_path, EXECUTED, engine)
        with closing(CourseFiles(tmp_path)) as files:
            blocks = [json.loads(files.body(f"l2/{number}/block")) for number in range(1, 19)]
            fastest = run_once(files, limit(), 0, 0, 40, engine)
            run = run_once(files, rollup_node([]), 0, 0, 50, engine)
    # An executed transfer uses more gas than one that fails at once.
    assert all(int(block["gasUsed"], 16) > 3 * 45_000 for block in blocks)
    assert fastest.counted.engine_calls["engine_getPayloadV3"] == run.counted.engine_calls["engine_getPayloadV3"] == 18
    assert 0 < run.counted.engine_busy_percent < 100 and run.engine_cpu_ms_per_block > 0
    share = next(figure for figure in figures([run], EXECUTED, 0, True, [fastest]) if "limit" in figure.name)
    assert share.median == run.blocks_per_second / fastest.blocks_per_second


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("echo no such flag; exit 3", "has ended with code 3: no such flag"),
        ("sleep 60", "no engine answers at http://127.*refused"),
        (None, "start one there with the course's genesis.json and jwt.txt"),
    ],
)
def test_an_engine_that_does_not_start(
    command: str | None, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executed, "START_SECONDS", 0.5)
    with pytest.raises(EngineError, match=f"(?s){text}"):
        prepare(tmp_path, EXECUTED, FreshEngine(f"http://{own_address()}:{free_port()}", command))


def test_an_executed_course_needs_an_engine(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="give --engine"):
        prepare(tmp_path, EXECUTED)


def test_the_relay_compares_attributes(course: CourseFiles) -> None:
    seen: list[str] = []
    relay = EngineRelay(
        course,
        "http://127.0.0.1:1",
        CallClock(),
        lambda: seen.append("first"),
        seen.append,
        lambda: seen.append("safe"),
    )
    attributes = json.loads(course.body("l2/1/attributes"))
    genesis, last = course.facts.l2_hashes[0], course.facts.last_safe

    def forkchoice(head: str, value: object) -> bool:
        state = {f"{label}BlockHash": head for label in ("head", "safe", "finalized")}
        body = {"jsonrpc": "2.0", "id": 1, "method": "engine_forkchoiceUpdatedV3", "params": [state, value]}
        return relay.opened(json.dumps(body).encode())

    relay.closed(forkchoice(genesis, attributes))
    relay.closed(forkchoice(genesis, attributes | {"gasLimit": "0x5"}))
    relay.closed(forkchoice("0x" + "5" * 64, attributes))
    relay.opened(b"no JSON")
    relay.closed(False)
    relay.closed(forkchoice(last, None))
    assert seen == ["first", "block 1 has other gasLimit", "not on a block of the course", "safe"]
    assert relay.calls == {"engine_forkchoiceUpdatedV3": 4}


@pytest.mark.parametrize(
    ("received", "end"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Le", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{", None),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP", 40),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 59),
    ],
)
def test_the_end_of_a_message(received: bytes, end: int | None) -> None:
    assert message_end(received) == end
    if end is not None:
        assert message_body(received[:end]) == b"{}"


def test_the_clock_of_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls overlap from 4 to 7; the engine waits from 2 to 4 and from 7 to 10."""
    clock, now = CallClock(), [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    events = [(0, clock.opened), (1, clock.start), (2, clock.closed), (4, clock.opened), (5, clock.opened)]
    for at, event in [*events, (6, clock.closed), (7, clock.closed), (10, clock.opened)]:
        now[0] = at
        event()
    now[0] = 11
    assert clock.busy_percent() == 100 * 5 / 10
    assert clock.gaps_ms() == [3000.0, 3000.0]
