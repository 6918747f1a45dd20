"""Worker, process and reference decoder agree, and a difference between them fails."""

from random import Random
from typing import Any

import pytest

from rollup_node.stages.derivation.tasks import DecodeChannel, run
from rollup_node.tools.batcher.channels import Compression, channel_body
from rollup_node.tools.fuzz.targets import differential, seeds
from rollup_node.tools.fuzz.targets.reference import reference_batches

BODY = channel_body([seeds.batch(Random(2)), seeds.batch(Random(3))], Compression.BROTLI)


def test_another_reference_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads_less(*arguments: Any) -> list[Any]:
        return reference_batches(*arguments)[:-1]

    monkeypatch.setattr(differential, "reference_batches", reads_less)
    with pytest.raises(AssertionError, match="reference"):
        differential.body(BODY)


def test_another_worker_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def stops_early(task: DecodeChannel) -> Any:
        return run(DecodeChannel(task.body, 10, task.brotli, task.span))

    monkeypatch.setattr(differential, "run", stops_early)
    with pytest.raises(AssertionError, match="worker"):
        differential.body(BODY)
