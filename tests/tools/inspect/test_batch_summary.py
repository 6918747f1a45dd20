"""A batch in one line, as text and as JSON."""

import msgspec
import pytest

from rollup_node.tools.inspect.batch_summary import (
    DECODED,
    LISTED,
    BatchSummary,
    BlockNumbers,
    batch_text,
    batch_values,
    block_numbers,
)
from rollup_node.tools.inspect.row_formats import TABLE_WIDTH, RowFormat, RowFormatter, RowLayout
from tests.support.chains.chain_fixture import GENESIS_TIME, make_rollup

SINGULAR = BatchSummary(None, None, "singular", 1000, 1, 3, b"\x0a" * 32, b"\x0d" * 32)
SPAN = BatchSummary(7, b"\x0c" * 16, "span", 1002, 9, 12, b"\x0b" * 20, b"\x0d" * 32)
WHOLE = msgspec.structs.replace(SPAN, inclusion_time=2000, l1_transactions=(b"\1" * 32, b"\2" * 32), channel_bytes=4096)


def test_the_numbers_of_a_batch_follow_from_its_time() -> None:
    numbers = BlockNumbers(500, 1000, 2)
    values = batch_values(SPAN, numbers)
    assert (values["first_block"], values["last_block"]) == (501, 509)
    assert "first_block" not in batch_values(SPAN, BlockNumbers(500, 1001, 2)), "no block has that time"
    assert "first_block" not in batch_values(SPAN, BlockNumbers(500, 1004, 2)), "it is before genesis"
    assert block_numbers(make_rollup()) == BlockNumbers(0, GENESIS_TIME, 2)


@pytest.mark.parametrize(
    ("batch", "numbers", "text"),
    [
        (SPAN, None, f"L1 7  channel {'0c' * 16}  span  time 1002  blocks 9  transactions 12"),
        (
            *(WHOLE, BlockNumbers(500, 1000, 2)),
            f"L1 7  1970-01-01T00:33:20Z  channel {'0c' * 16}  bytes 4096  L1 transactions 0x{'01' * 32} 0x{'02' * 32}"
            "  span  L2 501-509  time 1002 1970-01-01T00:16:42Z  blocks 9  transactions 12",
        ),
    ],
)
def test_text_leaves_out_what_is_unknown(batch: BatchSummary, numbers: BlockNumbers | None, text: str) -> None:
    assert batch_text(batch_values(batch, numbers)) == f"{text}  {'0d' * 32}"


@pytest.mark.parametrize("layout", [LISTED, DECODED])
@pytest.mark.parametrize("batch", [SINGULAR, SPAN, WHOLE])
def test_a_row_of_a_table_fits_its_columns(layout: RowLayout, batch: BatchSummary) -> None:
    large = msgspec.structs.replace(batch, inclusion=99_999_999, first_timestamp=1_700_000_000, transactions=99_999)
    for numbers in (None, BlockNumbers(123_000_000, 1_699_999_998, 2)):
        line = RowFormatter(RowFormat.TABLE, layout).row(batch_values(large, numbers)).splitlines()[-1]
        assert len(line) <= TABLE_WIDTH
        cells = layout.cells(batch_values(large, numbers))
        assert all(len(cell) <= column.width for cell, column in zip(cells, layout.columns, strict=True))
        assert cells[-2].startswith("2023-11-14 22:13:20" if numbers or batch.kind == "singular" else "1700000000 s")


def test_a_time_beyond_the_calendar_is_shown_in_seconds() -> None:
    late = msgspec.structs.replace(SINGULAR, first_timestamp=(1 << 64) - 1)
    for form in RowFormat:
        assert "18446744073709551615" in RowFormatter(form, DECODED).row(batch_values(late, BlockNumbers(0, 0, 1)))
