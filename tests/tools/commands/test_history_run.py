"""`rollup-node history run` over a prepared course: on one worker and on two, killed and resumed, with an archive; and
recorded data."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from rollup_node.node.cli import main
from rollup_node.node.options.parsing import parse_options
from rollup_node.tools.commands.history_run import hours, rate_options
from rollup_node.tools.faults.proxy import FaultProxy
from rollup_node.tools.faults.scenario import Action, Fault, FaultPlan, Request, Role
from rollup_node.tools.history.folder import HistoryFolder
from rollup_node.tools.history.manifest import RunConfig, plan_ranges
from rollup_node.tools.history.tables import Table
from tests.support.chains.small_history import manifest_row
from tests.support.processes.cli import Cli
from tests.support.processes.programs import FinishedProgram, is_alive, wait_for
from tests.support.servers.course_servers import SMALL, ServedCourse, course_servers
from tests.support.servers.threads import in_thread

SIZE = 7
HASHES = {"hash", "parent_hash", "l2_hash"}
"""Columns with hashes of L2 blocks."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Has the course in `course` and the archive of L1 data in `archive`."""
    return tmp_path_factory.mktemp("history")


@pytest.fixture(scope="module")
def course(folder: Path) -> Iterator[ServedCourse]:
    with course_servers(folder / "course") as served:
        yield served


def _words(course: ServedCourse, out: Path, *more: str, command: str = "run") -> list[str]:
    words = ("history", command, *course.options, *course.source, "--out", str(out), "--range-size", str(SIZE))
    flags = ("--from-l1", str(course.first), "--to-l1", str(course.last), "--timeout", "30s", "--jsonl")
    return [*words, *flags, *more]


def _program(words: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-m", "rollup_node", *words], stderr=subprocess.PIPE, text=True)


def _run(words: list[str]) -> list[str]:
    """Run a command that ends with 0 in this process; what it wrote to standard error."""
    with redirect_stderr(StringIO()) as written:
        code = main(words)
    assert code == 0, written.getvalue()
    return written.getvalue().splitlines()


def _rows(out: Path, table: Table) -> list[dict[str, Any]]:
    files = sorted((out / table.value).glob("day=*/range-*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def _tables(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for table in Table
        for path in (out / table.value).rglob("*.jsonl")
    }


@pytest.fixture(scope="module")
def history(course: ServedCourse, folder: Path) -> Path:
    """Return the history of the course, by one worker that is interrupted once, without Arrow and Dask.

    With a warm-up of one L1 block the second range starts from a block whose batch it has not read: its seam is
    repaired."""
    out = folder / "out"
    words = _words(course, out, "--warmup", "1", "--archive", str(folder / "archive"))
    with _without(folder / "blocked", "pyarrow", "distributed", "dask"):
        # With one request a second the range is still read when it is interrupted.
        with _program([*words, "--rate", "1"]) as run:
            assert run.stderr is not None
            child = _range_process(out, run)
            assert _status(out)[1:3] == ["L1 blocks 0 of 14, L2 blocks 0", "a run is under way"]
            run.send_signal(signal.SIGINT)
            time.sleep(0.1)
            run.send_signal(signal.SIGINT)
            text = "interrupted: the same command continues with the ranges that are missing"
            assert run.stderr.read() == f"rollup-node: {text}\n"
            assert run.wait(30) == 130
        wait_for(lambda: not is_alive(child), "the end of the range", 10)
        assert not (out / "manifest").exists()
        missing = [f"missing: L1 blocks {first} to {first + SIZE - 1}" for first in (course.first, course.first + SIZE)]
        assert _status(out)[1:] == ["L1 blocks 0 of 14, L2 blocks 0", *missing]
        lines = _run(words)
    seam = f"seam L1 {course.first + SIZE - 1}/{course.first + SIZE}: "
    (repaired,) = [line for line in lines if seam in line]
    assert repaired.endswith(": it closes")
    assert lines[-1] == "rollup-node: 2 ranges derived, 0 were complete, 0 missing"
    return out


@contextmanager
def _without(folder: Path, *packages: str) -> Iterator[None]:
    """Neither this process nor those that it starts can import these packages."""
    for name in packages:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ModuleNotFoundError('none here', name={name!r})\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((str(folder), *os.environ.get("PYTHONPATH", "").split(os.pathsep))))
        for name in packages:
            patch.setitem(sys.modules, name, None)
        yield


def _status(out: Path) -> list[str]:
    with redirect_stdout(StringIO()) as written:
        assert main(["history", "status", "--out", str(out)]) == 0
    return written.getvalue().splitlines()


def test_the_tables_are_the_chain(course: ServedCourse, history: Path) -> None:
    blocks = _rows(history, Table.L2_BLOCKS)
    assert [block["hash"] for block in blocks] == course.facts.l2_hashes[1:]
    assert [block["parent_hash"] for block in blocks] == course.facts.l2_hashes[:-1]
    channels, frames = _rows(history, Table.CHANNELS), _rows(history, Table.FRAMES)
    for channel in channels:
        own = [frame for frame in frames if frame["channel"] == channel["channel"]]
        assert len(own) == channel["frames"] and sum(frame["bytes"] for frame in own) == channel["bytes"]
        assert list(dict.fromkeys(frame["transaction"] for frame in own)) == channel["transactions"]
    batches = [batch for batch in _rows(history, Table.BATCHES) if batch["channel"] in {b["channel"] for b in blocks}]
    assert sum(batch["blocks"] for batch in batches) == len(blocks)
    known = {batch["channel"]: batch["l1_hash"] for batch in batches}
    assert all(known[block["channel"]] == block["l1_hash"] for block in blocks)
    heads = _rows(history, Table.SAFE_HEADS)
    assert heads[-1]["l2_hash"] == course.facts.l2_hashes[-1]
    assert {head["l1_hash"] for head in heads} <= set(course.facts.l1_hashes)
    inputs = _rows(history, Table.L1_INPUTS)
    assert {frame["transaction"] for frame in frames} < {
        input_["transaction"] for input_ in inputs if input_["is_batcher"]
    }


def test_what_is_complete_is_proved_and_not_run_again(course: ServedCourse, history: Path, cli: Cli) -> None:
    ended = cli("history", "verify", "--out", history)
    assert ended.err == f"rollup-node: proved: 2 of 2 ranges, L1 blocks {course.first} to {course.last}\n"
    assert ended.code == 0 and ended.out.startswith("SHA-256 of all tables: ")
    assert "\ntrusted: that the L2 source executed its blocks rightly" in ended.out
    before = _tables(history)
    ended = cli(*_words(course, history, "--warmup", "1"))
    assert ended.code == 0 and ended.err.endswith("0 ranges derived, 2 were complete, 0 missing\n")
    assert _tables(history) == before


def test_two_workers_write_the_same_even_when_a_range_and_a_worker_are_killed(
    history: Path, folder: Path, tmp_path: Path
) -> None:
    """With another warm-up too, from which no seam has to be repaired: the tables do not depend on it.

    The archive has what the first run has fetched, so that L1 is asked for its heads only, with the finalized one by
    its number."""
    pytest.importorskip("distributed")
    out = tmp_path / "out"
    more = ("--warmup", str(SIZE), "--workers", "2", "--archive", str(folder / "archive"))
    with course_servers(folder / "course") as course, _program(_words(course, out, *more)) as run:
        os.kill(_range_process(out, run), signal.SIGKILL)
        os.kill(_worker(out, run), signal.SIGKILL)
        assert run.stderr is not None
        text = run.stderr.read()
        assert run.wait(50) == 0 and "seam" not in text, text
    assert _tables(out) == _tables(history)
    asked = set(course.served.l1_calls)
    assert "eth_getBlockByNumber latest header" in asked
    assert asked.isdisjoint({"eth_getBlockByNumber full", "eth_getBlockReceipts"})
    assert course.served.l1_calls["eth_getBlockByNumber header"] <= 4, "once for each attempt of a range"
    assert not any("blobs" in route for route in course.served.beacon_calls)


def _range_process(out: Path, run: "subprocess.Popen[str]") -> int:
    """Return the id of a process that derives a range of this folder, once there is one."""
    wanted = str(out).encode() + b"/.partial/"
    while run.poll() is None:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = entry.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"range" in words and any(word.startswith(wanted) for word in words):
                return int(entry.parent.name)
        time.sleep(0.05)
    raise AssertionError("no range was started")


def _worker(out: Path, run: "subprocess.Popen[str]") -> int:
    """Return the id of the Dask worker that derives a range of this folder."""
    process = _range_process(out, run)
    while True:
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
            if b"\0range\0" not in Path(f"/proc/{process}/cmdline").read_bytes():
                return process
        except OSError:
            process = _range_process(out, run)


@pytest.mark.usefixtures("ranges_are_forked")
def test_without_an_l2_source_all_but_hashes_is_derived_from_genesis(tmp_path: Path, cli: Cli) -> None:
    """In both ranges batches come again, also such as were derived in the range before."""
    history, out = tmp_path / "history", tmp_path / "out"
    with course_servers(tmp_path / "course", msgspec.structs.replace(SMALL, other_parents=0)) as course:
        cli.out(*_words(course, history, "--range-size", str(2 * SIZE)))
        words = [word for word in _words(course, out) if word not in course.source]
        lines = _run(words)
        assert lines[-2].startswith("rollup-node: without an L2 source the hashes of L2 blocks are unknown")
        assert not any("seam" in line for line in lines)
        for table in Table:
            known = [row | dict.fromkeys(HASHES & row.keys()) for row in _rows(history, table)]
            assert [row | dict.fromkeys(HASHES & row.keys()) for row in _rows(out, table)] == known
        blocks = _rows(out, Table.L2_BLOCKS)
        assert blocks[0]["parent_hash"] == course.facts.l2_hashes[0]
        assert {block["hash"] for block in blocks} == {block["parent_hash"] for block in blocks[1:]} == {None}
        text = "\nwithout an L2 source the hashes of L2 blocks are unknown"
        assert text in cli.out("history", "verify", "--out", out)
        for more, text in (
            (("--safe-head", "7"), "--safe-head needs an L2 source"),
            (("--workers", "2"), "or give --no-verdicts"),
            (("--batcher", "0x" + 20 * "07"), "--batcher is for a history without verdicts: leave it out"),
            (("--no-verdicts",), "holds another run (in_order differ)"),
        ):
            assert text in cli.refused(*words, *more)


def test_plan_gives_hours_by_the_rate_of_what_is_done(
    course: ServedCourse, history: Path, tmp_path: Path, cli: Cli
) -> None:
    out = cli.out(*_words(course, tmp_path / "none", "--warmup", "1", command="plan"))
    assert f"2 ranges of {SIZE} L1 blocks, 0 of them complete" in out
    assert "hours: unknown until a range is complete" in out and not (tmp_path / "none").exists()
    out = cli.out(*_words(course, history, "--warmup", "1", command="plan"))
    assert "2 of them complete" in out and "256 workers: 0.0 hours" in out


def test_plan_of_a_whole_chain() -> None:
    """All L1 blocks of OP Mainnet since June 2023, by the rate of one day of them."""
    config = RunConfig("v1", 1, "aa", 17_422_591, 7_200, 300, "parquet", "engine", False)
    first, *missing = plan_ranges(config.first, 23_900_000, config.size)
    done = {first: msgspec.structs.replace(manifest_row(first.first, first.last), seconds=360.0)}
    assert len(missing) == 899
    assert hours(config, done, missing) == [
        "1 worker: 89.9 hours, 43 requests/s",
        "16 workers: 5.6 hours, 693 requests/s",
        "256 workers: 0.4 hours, 11093 requests/s",
    ]
    in_order = msgspec.structs.replace(config, in_order=True)
    assert [line.partition(":")[0] for line in hours(in_order, done, missing)] == ["1 worker"]
    assert hours(config, {}, missing)[0].startswith("hours: unknown until a range is complete")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (("--workers", "1025"), "'1025' is not a number from 1 to 1024"),
        (("--out", "/dev/null"), '--out: "/dev/null" is not a folder: name one'),
        (("--out", "/proc/history"), '--out: cannot write "/proc/history": '),
        (("--out", "/proc/self"), '--out: "/proc/self" is not empty and holds no history: name another folder'),
        (("--out", f"{__file__}/below"), "Not a directory"),
        (("--out", ""), "--out: it is empty: name a folder"),
        (("--to-l1", "99999999"), "--to-l1 99999999 is beyond L1's head, 20000014"),
        (("--to-l1", "1"), "--to-l1 1 is before --from-l1 20000001"),
        (("--from-l1", "20000000"), "--from-l1 20000000 is not after the chain's L1 genesis, 20000000"),
        (("--warmup", "2"), "holds another run (warmup differ): name another folder"),
        (("--l2-blocks", "/dev/null"), "give the L2 source: either --l2 URL or --l2-blocks FILE"),
        (("--scheduler", "tcp://127.0.0.1:9"), "--scheduler: cannot reach a Dask scheduler"),
        (("--scheduler", "tcp://127.0.0.1:9", "--workers", "2"), "leave it out with --scheduler"),
        (("--batcher", "0x" + 20 * "07"), "--batcher is for a history without verdicts: leave it out"),
        (("--no-verdicts",), "--no-verdicts is for a history without an L2 source: leave it out"),
        (("--out", "s3://bucket/history"), '--out: "s3://bucket/history" is a URL, not a folder: mount the storage'),
        (("--archive", "s3://bucket/l1"), '--archive: "s3://bucket/l1" is a URL, not a folder'),
        (("--archive", "/dev/null"), '--archive: "/dev/null" is not a folder that can be used: File exists'),
        (("--resource", "a=1"), "'a=1' is not a name of letters, digits, - and _"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_overwritten(
    course: ServedCourse, history: Path, more: tuple[str, ...], text: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "cannot reach" in text:
        pytest.importorskip("distributed")
        monkeypatch.setattr("rollup_node.tools.history.runner.CONNECT_SECONDS", 0.3)
    before = {path: path.stat().st_mtime_ns for path in history.rglob("*")}
    assert text in cli.refused(*_words(course, history, "--warmup", "1"), *more)
    assert {path: path.stat().st_mtime_ns for path in history.rglob("*")} == before


@pytest.mark.parametrize(
    ("rate", "ranges", "expected"), [(200, 4, (50.0, 20)), (20, 10, (2.0, 2)), (5, 16, (0.3125, 1)), (9, 1, (9.0, 9))]
)
def test_a_rate_is_shared_out(rate: int, ranges: int, expected: tuple[float, int]) -> None:
    options = rate_options(rate, ranges, 20)
    values = parse_options(["--l1.rpc-max-batch-size", "20", *options], {}).values
    assert (values["l1.rpc-rate-limit"], values["l1.rpc-max-batch-size"]) == expected
    assert ranges * expected[0] <= rate


def test_a_second_run_on_the_same_folder(course: ServedCourse, history: Path, cli: Cli) -> None:
    text = f'rollup-node: --out: another run writes "{history}": wait for its end, or name another folder'
    with HistoryFolder(history).locked():
        assert cli.refused(*_words(course, history, "--warmup", "1")) == text


def test_an_l2_source_of_another_chain(course: ServedCourse, tmp_path: Path, cli: Cli) -> None:
    assert "chain" in cli.refused(*_words(course, tmp_path / "out", "--l2", course.urls.l1))
    assert not (tmp_path / "out").exists()


@asynccontextmanager
async def _proxied(url: str, faults: tuple[Fault, ...], most: int = 1 << 30) -> AsyncIterator[FaultProxy]:
    """Provide a proxy before L1, with these faults of its responses until `most` requests have met them."""

    class Plan(FaultPlan):
        def of(self, request: Request) -> list[Fault]:
            return super().of(request) if self.applied < most else []

    proxy = FaultProxy(Role.L1, url)
    await proxy.start()
    try:
        proxy.plan = Plan(faults, Random(7))
        yield proxy
    finally:
        await proxy.stop()


def _lies(method: str, path: str, do: Action = Action.FLIP, every: int = 2) -> Fault:
    return Fault(Role.L1, do, method=method, path=path, every=every)


@pytest.mark.usefixtures("ranges_are_forked")
def test_an_l1_that_lies_or_fails_for_a_while(course: ServedCourse, history: Path, tmp_path: Path, cli: Cli) -> None:
    """What it says is refused until it is right.

    Where it stays wrong, the line says what is missing, and the same command continues."""
    out, last = tmp_path / "out", str(course.first + SIZE - 1)
    words = _words(course, out, "--warmup", "1", "--to-l1", last)

    def run(proxy: FaultProxy, *more: str) -> FinishedProgram:
        return cli(*(proxy.url if word == course.urls.l1 else word for word in words), *more)

    wrong = (_lies("eth_getBlockByNumber", "transactions.0.input", every=1),)
    with in_thread(_proxied(course.urls.l1, wrong)) as proxy:
        ended = run(proxy, "--timeout", "2s")
    *_, failure, end = ended.err.splitlines()
    assert f"L1 blocks {course.first} to {last}: FAILED: " in failure and "transactions root" in failure, ended.err
    assert end.endswith("0 ranges derived, 0 were complete, 1 missing: the same command continues with those")
    assert ended.code == 1 and list(out.rglob("range-*")) == []
    faults = (
        _lies("eth_getBlockByNumber", "transactions.0.input"),
        _lies("eth_getBlockReceipts", "", Action.SHORT),
        _lies("eth_getBlockReceipts", "", Action.ERROR),
        _lies("eth_getBlockByNumber", "hash"),
        _lies("eth_getBlockReceipts", "", Action.GARBAGE),
    )
    with in_thread(_proxied(course.urls.l1, faults, 12)) as proxy:
        assert run(proxy).code == 0
        assert proxy.plan is not None and proxy.plan.applied == 12
    known = {name: data for name, data in _tables(history).items() if f"range-{course.first:012d}" in name}
    assert known and _tables(out) == known
    other = (Fault(Role.L1, Action.RESULT, method="eth_chainId", value="0x5"),)
    with in_thread(_proxied(course.urls.l1, other)) as proxy:
        assert "incorrect L1 RPC chain id 5, expected 1" in run(proxy).error_line()
    assert _tables(out) == known


@pytest.mark.usefixtures("ranges_are_forked")
def test_recorded_op_sepolia(recorded: str, recording_folder: Path, tmp_path: Path) -> None:
    """The last L1 block ends a channel of seven spans, of which the last makes five blocks safe."""
    flags = ("--from-l1", "6582950", "--to-l1", "6582952", "--warmup", "8", "--safe-head", "16491244", "--jsonl")
    words = ("--network", "op-sepolia", "--l1", recorded, "--l1.beacon", recorded, "--out", str(tmp_path / "out"))
    blocks = recording_folder / "l2_blocks.json"
    _run(["history", "run", *flags, *words, "--l2-blocks", str(blocks), "--timeout", "30s"])
    known = {int(block["number"]): block["hash"] for block in json.loads(blocks.read_text())}
    rows = _rows(tmp_path / "out", Table.L2_BLOCKS)
    numbers = range(16491245, 16491250)
    assert [(row["number"], row["hash"]) for row in rows] == [(number, known.get(number)) for number in numbers]
    spans = json.loads((recording_folder / "expected.json").read_text())["spans"]
    expected = [span for span in spans if span["inclusion"] == 6582952]
    assert len(_rows(tmp_path / "out", Table.BATCHES)) == len(expected) == 7
    assert [drop["rule"] for drop in _rows(tmp_path / "out", Table.DROPS)] == ["PX5"] * 6
