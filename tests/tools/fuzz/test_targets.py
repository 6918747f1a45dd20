"""Every target accepts the inputs that the repository keeps for it, and mutated ones; differences and crashes fail."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from rollup_node.stages.derivation.tasks import DecodeChannel, run
from rollup_node.stages.rpc.process import http_server
from rollup_node.tools.batcher.channels import Compression, channel_body
from rollup_node.tools.fuzz.inputs import FOLDER, read_corpus
from rollup_node.tools.fuzz.runner import GENERATED, Runner
from rollup_node.tools.fuzz.targets import connections, differential, seeds
from rollup_node.tools.fuzz.targets.reference import reference_batches
from rollup_node.tools.fuzz.targets.table import TARGETS
from tests.conftest import ROOT

MUTATED = 20
MAX_CORPUS = 300_000
BODY = channel_body([seeds.batch(Random(2)), seeds.batch(Random(3))], Compression.BROTLI)


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


def _reads_less(*arguments: Any) -> list[Any]:
    return reference_batches(*arguments)[:-1]


def _stops_early(task: DecodeChannel) -> Any:
    return run(DecodeChannel(task.body, 10, task.brotli, task.span))


@pytest.mark.parametrize(
    ("name", "other", "error"), [("reference_batches", _reads_less, "reference"), ("run", _stops_early, "worker")]
)
def test_another_reference_and_another_worker_are_noticed(
    name: str, other: Any, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(differential, name, other)
    with pytest.raises(AssertionError, match=error):
        differential.body(BODY)


def test_a_crash_of_a_handler_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(http_server, "_rejection", crash)
    with pytest.raises(ZeroDivisionError):
        TARGETS["http-request"].run(connections._REQUESTS[0])
