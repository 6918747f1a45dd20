"""A folder of entries: what is damaged, too large or unwritable is a warning, never an error."""

import os
from pathlib import Path

import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Logger, Record
from rollup_node.tools.history.archive import Archive, blob_name, block_name, number_name, receipts_name


@pytest.fixture
def lines() -> list[Record]:
    result: list[Record] = []
    log.configure("test", Level.INFO, result.append)
    return result


async def _read(folder: Path, *names: str) -> list[bytes | None]:
    archive = Archive(str(folder), Logger("test"))
    return [await archive.read(name, 1000) for name in names]


async def _keep(folder: Path, entries: dict[str, bytes]) -> None:
    archive = Archive(str(folder), Logger("test"))
    for name, data in entries.items():
        await archive.keep(name, data)


async def test_what_is_damaged_is_a_warning(tmp_path: Path, lines: list[Record]) -> None:
    await _keep(tmp_path, {"a.gz": b"x" * 500, "large.gz": b"x" * 5000, "large": b"x" * 5000})
    os.truncate(tmp_path / "a.gz", (tmp_path / "a.gz").stat().st_size - 4)
    (tmp_path / "text.gz").write_bytes(b"no gzip")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name, reason in (
        ("a.gz", "it is incomplete"),
        ("large.gz", "it has more than 1000 bytes"),
        ("large", "it has more than 1000 bytes"),
        ("text.gz", "incorrect header check"),
        ("folder", "Is a directory"),
        ("pipe", "it is no file"),
    ):
        lines.clear()
        assert await _read(tmp_path, name) == [None]
        (line,) = lines
        assert line.fields["code"] == "ARCHIVE-DAMAGED" and line.fields["entry"] == str(tmp_path / name)
        assert reason in str(line.fields["reason"])


@pytest.mark.condition("C15")
async def test_what_cannot_be_written_is_a_condition_that_ends(tmp_path: Path, lines: list[Record]) -> None:
    (tmp_path / "a").write_text("no folder")
    archive = Archive(str(tmp_path), Logger("test"))
    for _ in range(3):
        await archive.keep("a/b", b"x")
    (tmp_path / "a").unlink()
    await archive.keep("a/b", b"x")
    failed, ended = lines
    assert failed.fields["code"] == "ARCHIVE-UNWRITABLE" and failed.fields["error"] == "File exists"
    assert ended.message == "the archive can be written again" and ended.fields["tried"] == 3
    assert (tmp_path / "a" / "b").read_bytes() == b"x"


HASH = b"\x01" + bytes(29) + b"\xab\xcd"


def test_names_spread_over_folders() -> None:
    text = "01" + 29 * "00" + "abcd"
    assert number_name(1, 19_426_587) == "l1-1/numbers/000019426/000019426587"
    assert block_name(1, HASH) == f"l1-1/blocks/cd/ab/{text}.json.gz"
    assert receipts_name(11155111, HASH) == f"l1-11155111/receipts/cd/ab/{text}.json.gz"
    assert blob_name(HASH) == f"blobs/cd/ab/{text}"
