"""The files of inputs."""

from pathlib import Path

import pytest

from rollup_node.tools.fuzz.corpus import CorpusError, read_corpus, write_corpus


def test_inputs_are_read_as_written_each_once_and_the_shortest_first(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    write_corpus(folder, "rlp", [b"\xff\xfe", b"", b"a", b"a"])
    assert read_corpus(folder, "rlp") == [b"", b"a", b"\xff\xfe"]
    assert read_corpus(folder, "frames") == []


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "rlp.txt").write_text("YQ==\n?\n")
    with pytest.raises(CorpusError, match=r"rlp\.txt, line 2"):
        read_corpus(tmp_path, "rlp")
