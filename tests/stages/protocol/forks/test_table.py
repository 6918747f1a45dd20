"""The fork table: order, names, and that each change is a rule that exists."""

import msgspec

from rollup_node.stages.protocol.forks.rules import EpochRules, L1Rules, L2Rules
from rollup_node.stages.protocol.forks.table import FORK_NAMES, FORKS, OPTIONAL_FORK


def test_forks_stand_in_their_order() -> None:
    assert " ".join(FORK_NAMES) == (
        "bedrock regolith canyon delta ecotone fjord granite holocene isthmus jovian karst lagoon"
    )
    assert OPTIONAL_FORK not in FORK_NAMES


def test_every_change_names_a_rule_and_changes_it() -> None:
    defaults = {"l1": L1Rules(), "epoch": EpochRules(), "l2": L2Rules()}
    for fork in FORKS:
        for clock, rules in defaults.items():
            changes = getattr(fork, clock)
            changed = msgspec.structs.replace(rules, **changes)
            assert all(getattr(changed, name) != getattr(rules, name) for name in changes)


def test_every_rule_is_changed_by_some_fork() -> None:
    for clock, rules in (("l1", L1Rules), ("epoch", EpochRules), ("l2", L2Rules)):
        changed = {name for fork in FORKS for name in getattr(fork, clock)}
        assert changed == set(rules.__struct_fields__)


def test_layouts_rise_with_the_forks() -> None:
    layouts = [fork.l1_info for fork in FORKS if fork.l1_info is not None]
    assert layouts == sorted(layouts) and len(set(layouts)) == 3
    assert [layout.packed for layout in layouts] == [True, True, True]
    assert [layout.operator_fee for layout in layouts] == [False, True, True]
    assert [layout.da_footprint for layout in layouts] == [False, False, True]
