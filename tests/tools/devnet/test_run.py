"""When a run ends, and its data directory."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.devnet import run as runs
from rollup_node.tools.devnet.run import UnusableDirectory, data_directory
from rollup_node.tools.devnet.settings import parse
from rollup_node.tools.devnet.status import NetworkStatus, NodeHeads, NoProgress, SilentView


class ScriptedNetwork:
    """A network whose safe heads are as listed, then the last one; None while no node answers."""

    def __init__(self, *safe: int | None) -> None:
        self._safe = list(safe)
        self.polls = 0

    def check(self) -> None:
        """All programs run."""

    async def poll(self) -> NetworkStatus:
        self.polls += 1
        safe = self._safe.pop(0) if len(self._safe) > 1 else self._safe[0]
        heads = None if safe is None else NodeHeads(safe + 1, safe, 0)
        return NetworkStatus(nodes={"sequencer": heads, "verifier": heads})


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "TICK_SECONDS", 0.001)


async def run_until_end(
    network: ScriptedNetwork, *flags: str, elapsed: float = 0.0, stopped: bool = False, faults: Callable[[], int] = int
) -> tuple[NodeHeads | None, float | None]:
    """Return the last heads and the time of the first safe block; the run began `elapsed` seconds ago."""
    stop, started = asyncio.Event(), time.monotonic() - elapsed
    if stopped:
        stop.set()
    async with asyncio.timeout(10):
        status, first_safe = await runs.wait_for_end(
            network.check, network.poll, faults, parse(flags), SilentView(), stop, started
        )
    return status.nodes["verifier"], first_safe


@pytest.mark.parametrize(
    ("safe", "flags", "options", "end"),
    [
        ((None, 0, 3, 4, 5, 6), "--blocks 5", {}, 5),
        ((None, None, 0, 7), "--duration 60", {"elapsed": 61}, 0),
        ((1, 2, 3, 4), "--blocks 2 --duration 60", {}, 2),
        ((9,), "", {"stopped": True}, 9),
    ],
    ids=["number of safe blocks", "duration once all nodes answer", "the first of both", "signal"],
)
async def test_the_end_of_a_run(safe: tuple[int | None, ...], flags: str, options: dict[str, Any], end: int) -> None:
    heads, first_safe = await run_until_end(ScriptedNetwork(*safe), *flags.split(), **options)
    assert heads == NodeHeads(end + 1, end, 0) and (first_safe is not None) == (end > 0)


async def test_a_run_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "FINAL_STATUS_SECONDS", 0.05)
    with pytest.raises(NoProgress, match="not all nodes report their heads"):
        await run_until_end(ScriptedNetwork(None), stopped=True)
    monkeypatch.setattr(runs, "STALL_SECONDS", 0.05)
    with pytest.raises(NoProgress, match=r"no new safe block for 0 s \(safe head 4\)"):
        await run_until_end(ScriptedNetwork(1, 2, 3, 4), "--blocks", "5")


async def test_without_a_batcher_safe_heads_may_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STALL_SECONDS", 0.0)
    heads, _ = await run_until_end(ScriptedNetwork(0, 0, 0, 0, 5), "--blocks", "5", "--no-batcher")
    assert heads == NodeHeads(6, 5, 0)


def test_a_given_directory_is_kept_and_locked(tmp_path: Path) -> None:
    value = tmp_path / "data"
    with data_directory(value):
        (value / "network.json").write_text("{}")
        with pytest.raises(UnusableDirectory, match="another network runs in it"), data_directory(value):
            pass
    with data_directory(value):
        assert not (value / "network.json").exists(), "chains start from genesis"


def test_a_directory_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.log").touch()
    with pytest.raises(UnusableDirectory, match="it contains other files"), data_directory(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.log"]


def test_only_files_of_an_earlier_run_are_removed(tmp_path: Path) -> None:
    databases = ("verifier-peers.db-wal", "verifier-safe-heads.db", "sequencer-2-peers.db_signed_blocks-wal")
    logs = ("verifier-2.log", "conductor.log", "sequencer-2-engine.log", "sequencer-engine.log", "l1.log")
    removed = (*databases, *logs, "network.json")
    kept = ("lock", "jwt.txt", "l2-genesis.json", "op-reth.log", "mine.db")
    for name in (*removed, *kept):
        (tmp_path / name).touch()
    (tmp_path / "sequencer-2-engine-data").mkdir()
    (tmp_path / "sequencer-2-engine-data" / "accepted-blocks.jsonl").touch()
    with data_directory(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_directory_that_cannot_be_created_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = r"--data-dir .*/file: File exists; give another directory"
    with pytest.raises(UnusableDirectory, match=error), data_directory(tmp_path / "file"):
        pass
