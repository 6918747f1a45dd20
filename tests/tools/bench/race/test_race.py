"""A race over a small course, the figures at its tip, real engines, and what ends a run without figures."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from rollup_node.tools.bench.race.course import prepare
from rollup_node.tools.bench.race.course_files import CourseFiles, CourseSize
from rollup_node.tools.bench.race.executed import FreshEngine
from rollup_node.tools.bench.race.node_run import run_tip
from rollup_node.tools.bench.race.programs import limit, rollup_node, supernode
from rollup_node.tools.bench.race.report import chain_figures, figures
from rollup_node.tools.bench.race.runner import run_once
from rollup_node.tools.devnet.ports import LOOPBACK, reserved_numbers
from tests.conftest import ROOT
from tests.support.foreign.op_programs import find_program
from tests.support.processes.leftovers import Leftovers

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
    run = run_tip(course, rollup_node([]), 0.2, 3)
    assert run.l1_blocks == 3 and run.cpu_percent > 0


# --- full L1 blocks ---------------------------------------------------------------------------------------------------


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
