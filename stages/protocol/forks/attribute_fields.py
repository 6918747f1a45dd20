"""The fields of payload attributes that forks add.

An engine that has another fork than this node refuses the attributes for such a field."""

from typing import NamedTuple

from rollup_node.stages.protocol.forks.rules import L2Rules
from rollup_node.stages.protocol.forks.table import FORKS


class AttributesField(NamedTuple):
    """The names that engines have for a field, in lower case, and the rule of a block's time that adds it."""

    names: tuple[str, ...]
    rule: str


FIELDS = (
    AttributesField(("minbasefee", "min base fee", "minimum base fee"), "min_base_fee"),
    AttributesField(("eip1559params", "eip1559 params", "eip-1559 params"), "eip1559_params"),
    AttributesField(("parentbeaconblockroot", "beacon root", "beacon block root"), "beacon_root"),
    AttributesField(("withdrawals",), "withdrawals"),
)
_MISSING = (
    "missing",
    "required",
    "must be set",
    "must not be n",
    "not set",
    "lacks",
    "not provided",
    "is nil",
    "is null",
    "got 0",
    "no parent",
    "no withdrawals",
)
_UNWANTED = (
    "before",
    "prior to",
    "unexpected",
    "not supported",
    "unsupported",
    "not allowed",
    "must be nil",
    "not active",
)


def disputed_fork(text: str, rules: L2Rules) -> str | None:
    """Return the fork that an engine and this node do not have alike, by the engine's refusal of attributes.

    It misses the field of a fork that is not active here, or refuses that of one that is; `rules` are those of the
    attributes. None if the text says nothing of that kind."""
    words = text.lower()
    for field in FIELDS:
        reasons = _UNWANTED if getattr(rules, field.rule) else _MISSING
        if any(name in words for name in field.names) and any(each in words for each in reasons):
            return next(fork.name for fork in FORKS if fork.l2 is not None and getattr(fork.l2(L2Rules()), field.rule))
    return None
