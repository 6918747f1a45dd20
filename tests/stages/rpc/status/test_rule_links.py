"""Links from rules to the specs."""

from rollup_node.stages.derivation.reasons.table import REASONS
from rollup_node.stages.rpc.status.rule_links import SPECS, rule_link


def test_the_rule_of_every_reason_has_a_link() -> None:
    """[RPC95]"""
    assert [reason.rule for reason in REASONS if rule_link(reason.rule) is None] == []
    assert rule_link("PX6a") == f"{SPECS}protocol/delta/span-batches.html#batch-queue"


def test_other_ids_have_none() -> None:
    assert rule_link("LHD2") is None and rule_link("") is None and rule_link("7") is None
