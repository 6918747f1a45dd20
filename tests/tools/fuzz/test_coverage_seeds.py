"""The choice of inputs by the lines that they reach."""

from rollup_node.stages.protocol import rlp
from rollup_node.tools.fuzz.coverage_seeds import chosen_seeds
from rollup_node.tools.fuzz.targets.target import FuzzTarget, one_of

TARGET = FuzzTarget("nobody", rlp.decode, one_of([rlp.encode([b"dog", b"x" * 60]), b"\x05"]), (rlp.RlpError,))


def test_inputs_that_reach_other_lines_are_chosen() -> None:
    chosen = chosen_seeds("rlp", TARGET, [], 100)
    kinds = {"list" if data[:1] >= b"\xc0" else "bytes" for data in chosen}
    assert kinds == {"list", "bytes"}
    assert 2 < len(chosen) == len(set(chosen)) <= 16


def test_inputs_that_are_kept_stay_and_are_not_doubled() -> None:
    first = chosen_seeds("rlp", TARGET, [], 50)
    again = chosen_seeds("rlp", TARGET, first, 0)
    assert again[: len(first)] == first
