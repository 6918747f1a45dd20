"""Every target accepts the inputs that the repository keeps for it, and mutated ones."""

from pathlib import Path

import pytest

from rollup_node.tools.fuzz import __main__ as program
from rollup_node.tools.fuzz.inputs import FOLDER, read_corpus
from rollup_node.tools.fuzz.runner import GENERATED, Runner
from rollup_node.tools.fuzz.targets.table import TARGETS
from tests.conftest import ROOT

MUTATED = 100
MAX_CORPUS = 300_000


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_accepts_its_corpus_and_mutated_inputs(name: str, tmp_path: Path) -> None:
    corpus = read_corpus(ROOT / FOLDER, name)
    inputs = len(corpus) + GENERATED + MUTATED
    figures = Runner(name, TARGETS[name], tmp_path).run(corpus, 17, None, inputs)
    assert figures.findings == []
    assert figures.inputs == inputs
    assert list(tmp_path.iterdir()) == []


def test_every_corpus_is_one_of_a_target_and_all_are_small() -> None:
    files = list((ROOT / FOLDER).glob("*.txt"))
    assert {path.stem for path in files} <= TARGETS.keys()
    assert sum(path.stat().st_size for path in files) <= MAX_CORPUS


def test_run_prints_and_reports_the_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    report, corpus = tmp_path / "report", tmp_path / "corpus"
    value = ["run", "--target", "rlp", "--inputs", "90", "--corpus", str(corpus), "--failures", str(tmp_path)]
    assert program.main([*value, "--report", str(report)]) == 0
    assert capsys.readouterr().out.startswith("rlp ")
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- fuzz: begin (generated) -->\n<!-- fuzz: end -->\nb\n")
    assert program.main(["table", str(report), "--page", str(page)]) == 0
    assert "| rlp | batcher key | 90 |" in page.read_text() and page.read_text().endswith("\nb\n")
