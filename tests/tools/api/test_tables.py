"""Blocks as tables, with the same columns in each library."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import msgspec
import pytest

import rollup_node
from rollup_node.stages.messages.derivation import Drop, DropEffect
from rollup_node.stages.protocol.types import BlockId
from rollup_node.tools.api import tables
from rollup_node.tools.api.blocks import Batch, Block, row_of
from tests.tools.api.test_hashes import ATTRIBUTES

L1 = rollup_node.L1BlockRef(b"\x0e" * 32, 102, b"\x0d" * 32, 999)
BATCH = Batch("span", 12, 5, b"\xc1" * 16, 99, (b"\x01" * 32,))
DROP = Drop("PX5", "a text", None, False, DropEffect.DROPPED, "span_past", {})
FIRST = Block(1, ATTRIBUTES, BATCH, BlockId(100, b"\x0c" * 32), 0, L1, (DROP, DROP), b"\x07" * 32)
EMPTY = msgspec.structs.replace(FIRST, number=2, batch=None, drops=(), hash=None, differences=("gas_limit: 1",))


def _blocks(count: int) -> Iterator[Block]:
    return (msgspec.structs.replace(FIRST, number=number) for number in range(count))


def test_a_row_for_each_block_in_each_library() -> None:
    pytest.importorskip("pyarrow")
    rows = [row_of(block) for block in (FIRST, EMPTY)]
    table = tables.arrow_table(iter((FIRST, EMPTY)))
    assert table.column_names == list(tables.COLUMNS) and table.to_pylist() == rows
    frame = tables.polars_frame(iter((FIRST, EMPTY)))
    assert frame.columns == list(tables.COLUMNS) and frame["number"].to_list() == [1, 2]
    panda = tables.pandas_frame(iter((FIRST, EMPTY)))
    assert list(panda.columns) == list(tables.COLUMNS) and panda["batch"].to_list()[0] == "span"


def test_no_blocks_are_a_table_too_and_many_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(tables, "ROWS", 3)
    assert tables.arrow_table(iter(())).num_rows == 0
    assert tables.arrow_table(_blocks(8))["number"].to_pylist() == list(range(8))


@pytest.mark.parametrize("make", [tables.arrow_table, tables.pandas_frame, tables.polars_frame])
def test_without_the_extra_the_error_says_what_to_install(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        if name in ("pyarrow", "pandas", "polars"):
            raise ModuleNotFoundError(name=name)
        return import_module(name)

    monkeypatch.setattr(tables, "import_module", missing)
    with pytest.raises(rollup_node.InputError, match=r"pip install 'rollup-node\[notebook\]'") as caught:
        make(iter((FIRST,)))
    assert caught.value.code == "NEEDS-EXTRA"
