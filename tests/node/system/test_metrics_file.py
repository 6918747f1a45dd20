"""The metrics file of a process."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from rollup_node.node.system import metrics_file
from rollup_node.node.system.metrics_file import MetricsFile, metrics_path
from rollup_node.stages.io.metrics.meter import Meter
from tests.support.timing import virtual_time


def test_the_meter_is_updated_before_each_write(tmp_path: Path) -> None:
    meter = Meter("l1")
    file = MetricsFile(tmp_path, "l1", meter, lambda: meter.count("pipeline_resets"))
    file.write()
    file.write()
    text = metrics_path(tmp_path, "l1").read_text()
    assert "op_node_default_pipeline_resets_total 2.0" in text
    assert [path.name for path in tmp_path.iterdir()] == ["l1.prom"]


def test_what_has_not_changed_is_not_written_for_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter, path = Meter("l1"), metrics_path(tmp_path, "l1")
    meter.count("pipeline_resets")
    file = MetricsFile(tmp_path, "l1", meter, lambda: None)
    file.write()
    path.unlink()
    file.write()
    assert not path.exists()
    monkeypatch.setattr(metrics_file, "REWRITE_SECONDS", 0.0)
    file.write()
    assert path.exists()
    monkeypatch.undo()
    path.unlink()
    meter.count("pipeline_resets")
    file.write()
    assert path.exists()


def test_a_folder_that_is_gone_is_ignored(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "gone", "l1", Meter("l1"), lambda: None).write()


@pytest.mark.parametrize("period", [metrics_file.WRITE_SECONDS, metrics_file.REWRITE_SECONDS])
def test_it_is_written_once_a_period(tmp_path: Path, period: float) -> None:
    times: list[float] = []

    async def scene() -> None:
        loop = asyncio.get_running_loop()
        file = MetricsFile(tmp_path, "l1", Meter("l1"), lambda: times.append(loop.time()), period)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.5 * period):
                await file.repeat()

    virtual_time.run(scene())
    assert times == [0.0, period, 2 * period]
