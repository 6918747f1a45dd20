"""What a run counts, and what it does with inputs that fail."""

from pathlib import Path

import pytest

from rollup_node.tools.fuzz import __main__ as program
from rollup_node.tools.fuzz.runner import Runner, replayed
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of


class RefusedError(Exception):
    pass


def refuses(data: bytes) -> object:
    if b"\xff" in data:
        raise RefusedError
    return len(data) % 2


def target(run: object = refuses) -> FuzzTarget:
    return FuzzTarget("nobody", run, one_of([bytes(50)]), (RefusedError,))  # type: ignore[arg-type]


def test_each_distinct_failure_is_written_once(tmp_path: Path) -> None:
    def fails(data: bytes) -> None:
        assert b"\xff" not in data

    figures = Runner("example", target(fails), tmp_path).run([], 5, None, 3000)
    (kept,) = tmp_path.iterdir()
    assert b"\xff" in kept.read_bytes()
    assert len(figures.findings) == 1 and str(kept) in figures.findings[0]
    outcome, trace = replayed(target(fails), kept.read_bytes())
    assert outcome.startswith("FAILED: AssertionError in test_each") and "in fails" in trace
    assert replayed(target(), b"\xff")[1] == "" and replayed(target(), b"") == ("0", "")


# --- the command line ----------------------------------------------------------------------------------------------


def test_run_prints_and_reports_the_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, corpus = tmp_path / "report", tmp_path / "corpus"
    value = ["run", "--target", "rlp", "--inputs", "90", "--corpus", str(corpus), "--failures", str(tmp_path)]
    assert program.main([*value, "--report", str(report)]) == 0
    assert capsys.readouterr().out.startswith("rlp ")
    assert program.main(["table", str(report)]) == 0
    assert "| rlp | batcher key | 90 |" in capsys.readouterr().out
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- fuzz: begin (generated) -->\n<!-- fuzz: end -->\nb\n")
    assert program.main(["table", str(report), "--page", str(page)]) == 0
    assert "| rlp | batcher key | 90 |" in page.read_text() and page.read_text().endswith("\nb\n")
    page.write_text("no section")
    assert program.main(["table", str(report), "--page", str(page)]) == 2
    assert "fuzz: the text has no markers" in capsys.readouterr().err
