"""Values that the tests of histories share."""

from rollup_node.tools.history.manifest import Block, ManifestRow, State, TableFile

CONFIG = "c0" * 32


def state(number: int, safe: int, salt: str = "") -> State:
    """Return the state after L1 block `number`."""
    return State(
        Block(number, f"0x{number:064x}"), Block(safe, f"0x{safe:064x}"), Block(number - 3, f"0x{salt}"), "5c", ()
    )


def row(first: int, last: int, config: str = CONFIG) -> ManifestRow:
    """Return a range with two L2 blocks for each of L1."""
    blocks = 2 * (last - first + 1)
    file = TableFile(f"l2_blocks/day=2024-01-01/range-{first:012d}.jsonl", "l2_blocks", blocks, 10, "00" * 32)
    start, end = state(first - 1, 2 * (first - 1)), state(last, 2 * last)
    return ManifestRow(config, "v1", first, last, start, end, blocks, (file,), 1.0)
