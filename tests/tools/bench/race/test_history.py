"""The benchmark of histories runs the commands that it says, and reckons right."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from rollup_node.tools.bench.race import history
from rollup_node.tools.bench.race.course_files import CourseFacts
from rollup_node.tools.bench.race.course_size import CourseSize
from rollup_node.tools.bench.race.history import Course, Run, measured, on_cores

FACTS = CourseFacts(CourseSize(), 1000, ["0x"] * 101, ["0x"] * 601, 0, 12, {}, "")


def test_figures_are_ratios_of_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[tuple[str, ...]] = []

    def run(*words: str) -> Run:
        runs.append(words)
        if words[0] == "replay":
            return Run(10.0, 100.0)
        out = Path(words[words.index("--out") + 1])
        (out / "manifest").mkdir(parents=True)
        (out / "manifest" / "range-1.json").write_text(json.dumps({"seconds": 18.0}))
        seconds = {"archived": 9.0, "first": 10.4, "lines": 10.0, "parquet": 10.4, "one": 20.0, "many": 12.5}
        return Run(seconds[out.name.partition("-")[0]], 250.0)

    monkeypatch.setattr(history, "run_command", run)
    monkeypatch.setattr(history, "plain_loops", {1: 4.0, 2: 5.0}.__getitem__)
    figures = {figure.name: figure for figure in measured(Course(FACTS, ("--l1", "x"), os.getpid()), tmp_path, 2, 2)}
    assert {name: round(figure.median, 3) for name, figure in figures.items()} == {
        "replay": 60.0,
        "one worker, one range": 57.692,
        "of replay's rate": 0.962,
        "Parquet over JSON lines": 0.04,
        "outside of ranges": 0.1,
        "2 workers on 2 cores over one on one": 1.6,
        "2 plain loops on 2 cores over one on one": 1.6,
        "the first of the second": 1.0,
        "memory of one worker": 250.0,
    }
    assert [name for name, figure in figures.items() if figure.is_missed] == ["2 workers on 2 cores over one on one"]
    assert {len(figures[name].runs) for name in ("Parquet over JSON lines", "the first of the second")} == {2}
    histories = [words for words in runs if words[0] == "history"]
    assert [words[0] for words in runs] == ["history", *["replay", *["history"] * 5] * 2]
    sizes = [words[words.index("--range-size") + 1] for words in histories]
    assert sizes == ["100", *["100", "100", "100", "50", "50"] * 2]
    assert [words[words.index("--workers") + 1] for words in histories] == ["1", *["1", "1", "1", "1", "2"] * 2]
    without = {Path(words[words.index("--out") + 1]).name for words in histories if "--archive" not in words}
    assert without == {"first-0", "first-1"}
    assert len({words[words.index("--archive") + 1] for words in histories if "--archive" in words}) == 1


def test_plain_loops_run_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = "open(os.path.join(folder, str(os.getpid())), 'w')\nwhile len(os.listdir(folder)) < 3: time.sleep(0.01)"
    monkeypatch.setattr(history, "PLAIN_LOOP", f"import os, time\nfolder = {str(tmp_path)!r}\n{wait}")
    assert history.plain_loops(3) > 0


def test_a_plain_loop_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PLAIN_LOOP", "raise SystemExit(3)")
    with pytest.raises(subprocess.CalledProcessError):
        history.plain_loops(1)


def test_a_command_that_fails_ends_it() -> None:
    with pytest.raises(subprocess.CalledProcessError):
        history.run_command("history", "nonsense")


def test_what_is_started_runs_on_so_many_cores() -> None:
    before = os.sched_getaffinity(0)
    with subprocess.Popen(["sleep", "60"]) as server:
        with on_cores(1, server.pid):
            assert os.sched_getaffinity(0) == os.sched_getaffinity(server.pid) == {min(before)}
        assert os.sched_getaffinity(0) == os.sched_getaffinity(server.pid) == before
        server.kill()
