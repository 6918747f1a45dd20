"""The tables: partitions, and columns that name the L1 block."""

from rollup_node.tools.history.tables import COLUMNS, Table, day_of, partition


def test_rows_are_partitioned_by_the_utc_day_of_their_l1_block() -> None:
    assert [day_of(time) for time in (0, 86_399, 86_400, 1_724_785_044)] == [
        "1970-01-01",
        "1970-01-01",
        "1970-01-02",
        "2024-08-27",
    ]
    assert partition(Table.DROPS, 1_724_785_044) == "drops/day=2024-08-27"
    assert day_of(1 << 63) == "9999-12-31"


def test_each_table_has_columns_and_its_l1_block() -> None:
    assert set(COLUMNS) == set(Table)
    for table in Table:
        assert {"l1_number", "l1_hash", "l1_time"} <= set(COLUMNS[table])
