"""The table of figures."""

from rollup_node.tools.fuzz.report import Figures, markdown_table, summed

RUNS = [
    Figures("rlp", 1000, 2.0, {"a": 5, "b": 1}, 3.0, 40, []),
    Figures("frames", 500, 1.0, {"a": 1}, 1.0, 30, ["one"]),
    Figures("rlp", 3000, 2.0, {"b": 1, "c": 1}, 2.0, 50, [], 4),
]


def test_runs_of_a_target_are_summed() -> None:
    rlp, frames = summed(RUNS)
    assert (rlp.inputs, rlp.seconds, rlp.slowest_ms, rlp.peak_mb, set(rlp.outcomes)) == (4000, 4.0, 3.0, 50, {*"abc"})
    assert frames.findings == ["one"]


def test_the_table_ends_in_the_sum() -> None:
    lines = markdown_table(RUNS, {"rlp": "anybody"}).splitlines()
    assert lines[2] == "| rlp | anybody | 4,000 | 1,000 | 3 | 3.0 | 4 | 0 |"
    assert lines[-1] == "| all 2 | | 4,500 | 900 | | | 4 | 1 |"
