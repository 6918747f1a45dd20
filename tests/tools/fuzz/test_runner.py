"""What a run counts, and what it does with inputs that fail."""

from pathlib import Path

import pytest

from rollup_node.tools.fuzz import __main__ as program
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of


class RefusedError(Exception):
    pass


def refuses(data: bytes) -> object:
    if b"\xff" in data:
        raise RefusedError
    return len(data) % 2


def target(run: object = refuses) -> FuzzTarget:
    return FuzzTarget("nobody", run, one_of([bytes(50)]), (RefusedError,))  # type: ignore[arg-type]


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
