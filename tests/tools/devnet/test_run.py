"""When a run ends, and the directory it runs in."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollup_node.tools.devnet import run as runs
from rollup_node.tools.devnet.run import NoProgress, UnusableDirectory, data_directory
from rollup_node.tools.devnet.settings import parse
from rollup_node.tools.devnet.status import NetworkStatus, NodeHeads
from rollup_node.tools.devnet.view import SilentView


class Stand:
    """In the place of the network and of who watches it; safe heads are as listed, the last for ever."""

    def __init__(self, *safe: int | None) -> None:
        self._safe = list(safe)
        self.children = self
        self.looks = 0

    def check(self) -> None:
        """All programs run."""

    async def look(self) -> NetworkStatus:
        self.looks += 1
        safe = self._safe.pop(0) if len(self._safe) > 1 else self._safe[0]
        heads = None if safe is None else NodeHeads(safe + 1, safe, 0)
        return NetworkStatus(nodes={"sequencer": heads, "verifier": heads})


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(runs, "TICK_SECONDS", 0.001)
    yield


def until_end(stand: Any, *flags: str, began: float = 0.0, stopped: bool = False) -> tuple[NetworkStatus, float | None]:
    async def scene() -> tuple[NetworkStatus, float | None]:
        stop = asyncio.Event()
        if stopped:
            stop.set()
        started = time.monotonic() - began
        async with asyncio.timeout(10):
            return await runs._until_end(stand, stand, parse(flags), SilentView(), stop, started)

    return asyncio.run(scene())


def test_a_number_of_safe_blocks_ends_it() -> None:
    stand = Stand(None, 0, 3, 4, 5, 6)
    status, first_safe = until_end(stand, "--blocks", "5")
    assert status.nodes["verifier"] == NodeHeads(6, 5, 0) and stand.looks == 5
    assert first_safe is not None


def test_time_ends_it_when_both_nodes_are_known() -> None:
    stand = Stand(None, None, 0, 7)
    status, first_safe = until_end(stand, "--duration", "60", began=61)
    assert status.nodes["verifier"] == NodeHeads(1, 0, 0) and first_safe is None


def test_whichever_comes_first_ends_it() -> None:
    status, _ = until_end(Stand(1, 2, 3, 4), "--blocks", "2", "--duration", "60")
    assert status.nodes["verifier"] == NodeHeads(3, 2, 0)


def test_a_signal_ends_it() -> None:
    status, _ = until_end(Stand(9), stopped=True)
    assert status.nodes["sequencer"] == NodeHeads(10, 9, 0)


def test_a_signal_ends_it_although_a_node_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STOP_SECONDS", 0.05)
    with pytest.raises(NoProgress, match="not all nodes report their heads"):
        until_end(Stand(None), stopped=True)


def test_standing_still_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "STALL_SECONDS", 0.05)
    with pytest.raises(NoProgress, match=r"no new safe block for 0 s \(safe 4\)"):
        until_end(Stand(1, 2, 3, 4), "--blocks", "5")


def test_a_directory_of_its_own_is_removed() -> None:
    with data_directory(None) as path:
        assert path.is_dir()
    assert not path.exists()


def test_a_given_directory_is_kept_and_held(tmp_path: Path) -> None:
    given = tmp_path / "a" / "b"
    (tmp_path / "a").mkdir()
    with data_directory(given):
        (given / "network.json").write_text("{}")
        with pytest.raises(UnusableDirectory, match="another network runs in it"), data_directory(given):
            pass
    with data_directory(given):
        assert not (given / "network.json").exists(), "chains begin anew"


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.log").touch()
    with pytest.raises(UnusableDirectory, match="it contains other files"), data_directory(tmp_path):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.log"]


def test_only_what_a_network_left_is_removed(tmp_path: Path) -> None:
    ours = ("verifier-2.log", "sequencer-engine.log", "verifier-peers.db-wal", "l1.log", "network.json")
    kept = ("lock", "jwt.txt", "l2-genesis.json", "op-reth.log", "mine.db")
    for name in (*ours, *kept):
        (tmp_path / name).touch()
    with data_directory(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said = r"--data-dir .*/file: File exists; give another"
    with pytest.raises(UnusableDirectory, match=said), data_directory(tmp_path / "file"):
        pass
