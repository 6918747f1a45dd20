"""Blocks of the API as tables, with the same columns in each library. test_derivation has those that are derived."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest

import rollup_node
from rollup_node.stages.messages.derivation import Drop, DropEffect
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.api import blocks
from rollup_node.tools.api.blocks import Batch, Block
from tests.tools.api.test_hashes import ATTRIBUTES

L1 = rollup_node.L1BlockRef(b"\x0e" * 32, 102, b"\x0d" * 32, 999)
BATCH = Batch("span", 12, 5, b"\xc1" * 16, 99, (b"\x01" * 32,))
DROP = Drop("PX5", "a text", None, False, DropEffect.DROPPED, "span_past", {})
FIRST = Block(1, ATTRIBUTES, BATCH, BlockId(100, b"\x0c" * 32), 3, L1, (DROP, DROP), b"\x07" * 32)
EMPTY = msgspec.structs.replace(FIRST, number=2, batch=None, drops=(), hash=None, differences=("gas_limit: 1",))
VALUES = [1, b"\x07" * 32, 1000, 100, 3, 102, 999, 2, 4, 30_000_000, "span", 5, b"\xc1" * 16, 99, ["PX5", "PX5"], []]


def _blocks(count: int) -> Iterator[Block]:
    return (msgspec.structs.replace(FIRST, number=number) for number in range(count))


def test_a_row_for_each_block_in_each_library() -> None:
    pytest.importorskip("pyarrow")
    table, columns = blocks.arrow_table(iter((FIRST, EMPTY))), list(blocks.COLUMNS)
    first, second = table.to_pylist()
    assert first == dict(zip(columns, VALUES, strict=True)) and table.column_names == columns
    none = dict.fromkeys(("hash", "batch", "batch_blocks", "channel", "channel_bytes"))
    assert second == first | none | {"number": 2, "drops": [], "differences": ["gas_limit: 1"]}
    frame = blocks.polars_frame(iter((FIRST, EMPTY)))
    assert frame.columns == columns and frame["number"].to_list() == [1, 2]
    panda = blocks.pandas_frame(iter((FIRST, EMPTY)))
    assert list(panda.columns) == columns and panda["batch"].to_list()[0] == "span"


def test_no_blocks_are_a_table_too_and_many_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(blocks, "ROWS", 3)
    assert blocks.arrow_table(iter(())).num_rows == 0
    assert blocks.arrow_table(_blocks(8))["number"].to_pylist() == list(range(8))


@pytest.mark.parametrize("make", [blocks.arrow_table, blocks.pandas_frame, blocks.polars_frame])
def test_without_the_extra_the_error_says_what_to_install(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        if name in ("pyarrow", "pandas", "polars"):
            raise ModuleNotFoundError(name=name)
        return import_module(name)

    monkeypatch.setattr(blocks, "import_module", missing)
    with pytest.raises(rollup_node.InputError, match=r"pip install 'rollup-node\[notebook\]'") as caught:
        make(iter((FIRST,)))
    assert caught.value.code == "NEEDS-EXTRA"
