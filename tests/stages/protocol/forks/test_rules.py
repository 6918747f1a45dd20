"""Layouts of the L1 attributes: what each of them has [LIN13]."""

from rollup_node.stages.protocol.forks.rules import L1InfoFormat


def test_each_layout_adds_to_the_one_before() -> None:
    layouts = list(L1InfoFormat)
    assert layouts == sorted(layouts)
    assert [layout.packed for layout in layouts] == [False, True, True, True]
