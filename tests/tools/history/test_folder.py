"""The output folder: what a crash leaves, and what is refused."""

import errno
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.history.folder import HistoryFolder, RunFile, file_entry
from rollup_node.tools.history.manifest import L1Range, ManifestRow, RunConfig, TableFile, with_checksum
from rollup_node.tools.history.report import RangeRows
from tests.support.chains.small_history import manifest_row

CONFIG = RunConfig("v1", 1, "aa", 100, 10, 50, "jsonl", "engine", False)
RUN = RunFile(CONFIG, "local", 119)
NAME = "l2_blocks/day=2024-01-01/range-000000000100.jsonl"


def _publish(folder: HistoryFolder, text: str, manifest_row: ManifestRow) -> ManifestRow:
    source = folder.partial(manifest_row.range) / "rows"
    source.write_text(text)
    whole = msgspec.structs.replace(manifest_row, files=(file_entry(source, NAME, "l2_blocks", 20),))
    folder.publish(whole, {NAME: source})
    return whole


def test_a_run_is_continued_and_another_one_is_refused(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path / "out")
    assert folder.run_file() is None
    folder.open(RUN)
    assert folder.existing() == RUN and RUN.plan == (L1Range(100, 109), L1Range(110, 119))
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(SetupError, match=r"holds another run \(size differ\): name another folder"):
        folder.open(msgspec.structs.replace(RUN, config=msgspec.structs.replace(CONFIG, size=20)))
    assert (folder.path / "run.json").read_bytes() == before
    folder.open(msgspec.structs.replace(RUN, last=125))
    assert folder.existing().last == 125


def test_a_range_is_published_with_its_manifest_last_and_replaced_whole(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path / "out")
    folder.open(RUN)
    first = _publish(folder, "a\n", manifest_row(100, 109))
    assert folder.manifests() == {"range-000000000100": first}
    assert list(folder.file_problems(first)) == []
    stale = folder.path / "drops" / "day=2024-01-02" / "range-000000000100.jsonl"
    stale.parent.mkdir(parents=True)
    stale.write_text("old")
    assert list(folder.file_problems(first)) == ["drops/day=2024-01-02/range-000000000100.jsonl: in no manifest"]
    second = _publish(folder, "bb\n", manifest_row(100, 109))
    assert list(folder.file_problems(second)) == [] and not stale.exists()
    assert list(folder.file_problems(first)) != []
    left = folder.path / ".partial" / "range-000000000100.elsewhere.1"
    left.mkdir()
    folder.partial(first.range)
    assert not left.exists()


def test_the_last_blocks_of_two_ranges_are_kept(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path)
    ranges = [L1Range(first, first + 9) for first in (90, 100, 1000)]
    for range_ in ranges:
        (tmp_path / "new").write_bytes(b"blocks")
        folder.keep_overlap(range_, tmp_path / "new")
    assert [folder.overlap(range_).exists() for range_ in ranges] == [False, True, True]
    with pytest.raises(SetupError, match=r"cannot write .*No such file"):
        folder.keep_overlap(ranges[0], tmp_path / "new")


@pytest.mark.parametrize("was_complete", [False, True])
def test_a_disk_that_fills_at_any_step_leaves_no_half_range(
    was_complete: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the names change, what was complete stays; a range without all its files is not usable."""
    real: dict[str, Callable[..., Any]] = {"fsync": os.fsync, "replace": os.replace}
    calls = itertools.count()
    failing = 0

    def fails(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            if next(calls) == failing:
                raise OSError(errno.ENOSPC, "No space left on device", "disk")
            return real[name](*arguments)

        return call

    ends = []
    for failing in range(10):
        folder = HistoryFolder(tmp_path / f"out-{failing}")
        before = _publish(folder, "a\n", manifest_row(100, 109)) if was_complete else None
        with monkeypatch.context() as patch:
            calls = itertools.count()
            for name in real:
                patch.setattr(os, name, fails(name))
            try:
                _publish(folder, "bb\n", manifest_row(100, 109))
                ends.append("written")
            except SetupError as error:
                assert str(error) == '--out: L1 blocks 100 to 109: No space left on device: "disk"'
                usable, lost = folder.usable_manifests()
                ends.append("kept" if before in usable.values() else "new" if usable else "missing")
                assert lost == [] and all(list(folder.file_problems(item)) == [] for item in usable.values())
        assert not list((folder.path / "manifest").glob(".*"))
        whole = _publish(folder, "ccc\n", manifest_row(100, 109))
        assert folder.usable_manifests() == ({"range-000000000100": whole}, [])
    first = "kept" if was_complete else "missing"
    assert ends == [first] * 2 + ["missing"] * 3 + ["new"] + ["written"] * 4


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path / "out")
    folder.open(RUN)
    whole = _publish(folder, "a\n", manifest_row(100, 109))
    (folder.path / NAME).unlink()
    os.mkfifo(folder.path / NAME)
    assert list(folder.file_problems(whole)) == [f"{NAME}: it is no file"]
    for name in ("../x", "/dev/zero"):
        foreign = msgspec.structs.replace(whole, files=(TableFile(name, "drops", 1, 2, "00"),))
        assert next(folder.file_problems(foreign)) == f"{name}: not below the folder"
    problems = RangeRows(folder.path, whole).problems()
    assert list(problems) == ["l2_blocks: its rows are unreadable: [Errno 22] it is no file"]
    (folder.path / ".lock").unlink(missing_ok=True)
    os.mkfifo(folder.path / ".lock")
    assert not folder.is_locked()
    (folder.path / "run.json").unlink()
    os.mkfifo(folder.path / "run.json")
    with pytest.raises(SetupError, match=r"is unreadable: .*it is no file"):
        folder.run_file()


@pytest.mark.parametrize("damage", [b'{"\xff": 1}', b'{"a":' + b"[" * 5000, b"[]", b"{}"])
def test_a_run_file_that_is_damaged(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "run.json").write_bytes(damage)
    with pytest.raises(SetupError, match="is unreadable"):
        HistoryFolder(tmp_path).run_file()


def test_a_run_file_of_too_many_ranges(tmp_path: Path) -> None:
    run = msgspec.structs.replace(RUN, last=1 << 60)
    (tmp_path / "run.json").write_bytes(with_checksum(run))
    with pytest.raises(SetupError, match="more than 1000000 ranges"):
        HistoryFolder(tmp_path).run_file()


def test_a_range_whose_files_are_gone_or_cut_is_not_usable(tmp_path: Path) -> None:
    folder = HistoryFolder(tmp_path / "out")
    whole = _publish(folder, "a\n", manifest_row(100, 109))
    assert folder.usable_manifests() == ({whole.range.name: whole}, [])
    for damage in (lambda path: path.write_text("a"), Path.unlink):
        damage(folder.path / NAME)
        assert folder.usable_manifests() == ({}, [f"{NAME} is missing or of another size than its manifest says"])
