"""The fork table: order, names, and that every rule is changed by some fork."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import TypeVar

import pytest

from rollup_node.stages.protocol.forks.rules import EpochRules, L1Rules, L2Rules
from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.stages.protocol.forks.table import (
    FORK_NAMES,
    FORKS,
    OPTIONAL_FORK,
    OVERRIDABLE,
    TIMED_FORKS,
    disputed_fork,
)

R = TypeVar("R", L1Rules, EpochRules, L2Rules)


def test_forks_are_in_their_order() -> None:
    """[CST9]"""
    assert " ".join(FORK_NAMES) == (
        "bedrock regolith canyon delta ecotone fjord granite holocene isthmus jovian karst lagoon"
    )
    assert OPTIONAL_FORK not in FORK_NAMES


def test_activations() -> None:
    refused, empty, roomy, kept = [], [], [], []
    for name in FORK_NAMES:
        for activation in ForkSchedule({name: 10}, 2, 300, 600).activations(10):
            assert activation.bundle == activation.fork == name
            refused += [name] * activation.user_transactions_refused
            empty += [name] * activation.sequencer_no_tx_pool
            roomy += [name] * activation.extra_gas
            kept += [name] * activation.extra_gas_may_be_kept
    assert empty == ["ecotone", "fjord", "isthmus", "jovian", "karst", "lagoon"]
    assert refused == ["jovian", "karst", "lagoon"]
    assert roomy == ["karst", "lagoon"]
    assert kept == ["karst"]


def changed_fields(first: R, changes: list[Callable[[R], R] | None]) -> Iterator[set[str]]:
    """Yield the fields that each change replaces, applied one after the other."""
    rules = first
    for change in changes:
        if change is not None:
            before, rules = rules, change(rules)
            yield {field.name for field in fields(first) if getattr(before, field.name) != getattr(rules, field.name)}


def test_every_change_changes_a_rule_and_every_rule_is_changed() -> None:
    l1 = list(changed_fields(L1Rules(), [fork.l1 for fork in FORKS]))
    epoch = list(changed_fields(EpochRules(), [fork.epoch for fork in FORKS]))
    l2 = list(changed_fields(L2Rules(), [fork.l2 for fork in FORKS]))
    assert all((*l1, *epoch, *l2))
    assert set().union(*l1) == {field.name for field in fields(L1Rules)}
    assert set().union(*epoch) == {field.name for field in fields(EpochRules)}
    assert set().union(*l2) == {field.name for field in fields(L2Rules)}


def test_engines_know_the_forks_that_change_execution() -> None:
    assert [fork.name for fork in FORKS if not fork.engine] == ["delta"]
    pairs = {fork.name: fork.ethereum for fork in FORKS if fork.ethereum}
    assert pairs == {"canyon": "shanghai", "ecotone": "cancun", "isthmus": "prague", "karst": "osaka"}


def test_forks_with_a_time_and_with_an_option() -> None:
    assert ("bedrock", *TIMED_FORKS) == FORK_NAMES
    assert ("regolith", *OVERRIDABLE) == (*TIMED_FORKS, OPTIONAL_FORK)


NONE, ALL = L2Rules(), L2Rules(withdrawals=True, beacon_root=True, eip1559_params=True, min_base_fee=True)


@pytest.mark.parametrize(
    "text, rules, fork",
    [
        ("minBaseFee is missing", NONE, "jovian"),
        ("eip1559Params is required since Holocene", NONE, "holocene"),
        ("missing beacon root", NONE, "ecotone"),
        ("withdrawals must not be nil", NONE, "canyon"),
        ("minBaseFee given before its fork", ALL, "jovian"),
        ("got eip1559Params prior to Holocene", ALL, "holocene"),
        ("unexpected beacon root", ALL, "ecotone"),
        ("withdrawals not supported", ALL, "canyon"),
        ("minBaseFee is missing", ALL, None),
        ("holocene params cannot have a 0 denominator: eip1559Params", ALL, None),
        ("minBaseFee not supported", NONE, None),
        ("transaction 3 is invalid", NONE, None),
        ("gasLimit parameter is required", ALL, None),
    ],
)
def test_the_fork(text: str, rules: L2Rules, fork: str | None) -> None:
    assert disputed_fork(text, rules) == fork
