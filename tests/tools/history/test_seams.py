"""Seams, and what manifests alone prove."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.tools.history.manifest import Block, ManifestRow
from rollup_node.tools.history.ranges import plan_ranges
from rollup_node.tools.history.seams import differences, open_seams, problems, progress
from tests.support.chains.history_values import CONFIG, row, state

PLAN = plan_ranges(10, 39, 10)


def _rows() -> dict[str, ManifestRow]:
    return {each.name: row(each.first, each.last) for each in PLAN}


def test_a_whole_history_has_no_problem() -> None:
    assert problems(PLAN, _rows(), CONFIG) == []
    assert progress(PLAN, _rows(), CONFIG).missing == ()


@settings(max_examples=30, deadline=None)
@given(st.sets(st.integers(0, 2)))
def test_each_missing_range_is_named(gone: set[int]) -> None:
    rows = {name: each for index, (name, each) in enumerate(_rows().items()) if index not in gone}
    assert progress(PLAN, rows, CONFIG).missing == tuple(PLAN[index] for index in sorted(gone))
    assert problems(PLAN, rows, CONFIG) == [f"L1 blocks {PLAN[index]}: not derived" for index in sorted(gone)]


def test_another_configuration_or_length_is_missing() -> None:
    rows = _rows()
    rows[PLAN[1].name] = row(20, 29, config="other")
    rows[PLAN[2].name] = row(30, 35)
    assert progress(PLAN, rows, CONFIG).missing == PLAN[1:]


def test_an_open_seam_names_what_differs() -> None:
    rows = _rows()
    rows[PLAN[1].name] = row(20, 29, salt="5")
    (seam,) = open_seams(rows.values())
    assert (seam.after, seam.range) == (PLAN[0], PLAN[1])
    assert problems(PLAN, rows, CONFIG) == ["seam L1 19/20: L1 origin of the safe head differ"]
    assert differences(state(5, 9), state(5, 8)) == ("safe head",)
    gap = [row(10, 19), row(30, 39)]
    assert list(open_seams(gap)) == []


def test_a_manifest_that_contradicts_itself() -> None:
    good = row(10, 19)
    wrong = [
        (msgspec.structs.replace(good, start=state(8, 18)), "the start state is that of L1 block 8"),
        (msgspec.structs.replace(good, end=state(20, 38)), "the end state is that of L1 block 20"),
        (msgspec.structs.replace(good, l2_blocks=19), "19 L2 blocks lead from 18 to 38"),
        (msgspec.structs.replace(good, files=()), "the files have 0 L2 blocks, the range 20"),
        (
            msgspec.structs.replace(good, end=msgspec.structs.replace(good.end, safe=Block(38, None))),
            "the L2 source gave no hash of block 38",
        ),
    ]
    for each, text in wrong:
        found = problems(plan_ranges(10, 19, 10), {each.range.name: each}, CONFIG)
        assert any(text in line for line in found), text
