"""Kinds of reasons, reasons of these kinds, and the drops that derivation outputs.

Log line, metric label, `explain` and docs/drop-reasons.md are made from the kinds."""

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVarTuple

import msgspec

from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import L1BlockRef

Subject = Literal[
    "batch", "blob", "challenge", "channel", "commitment", "config update", "frame", "frames", "pipeline", "transaction"
]
Values = TypeVarTuple("Values")

PHRASES = {
    DropEffect.IGNORED: "ignored",
    DropEffect.DROPPED: "dropped",
    DropEffect.FLUSHED: "dropped with the rest of its span and channel",
    DropEffect.ENDED: "ended early",
    DropEffect.PAST: "skipped as past",
    DropEffect.UNDECIDED: "discarded undecided",
    DropEffect.TIMED_OUT: "timed out",
    DropEffect.DISCARDED: "discarded",
    DropEffect.RESET: "needs a reset",
}


class Reason(msgspec.Struct, frozen=True, array_like=True):
    """Why something happened: the `name` of its kind, and what the kind's text names, in this order."""

    name: str
    arguments: tuple[Any, ...]

    @property
    def kind(self) -> "AnyKind":
        return KINDS[self.name]

    @property
    def values(self) -> dict[str, int | str]:
        """What the text names, bytes among it as hex text with 0x."""
        return dict(zip(self.kind.fields, map(_portable, self.arguments), strict=True))

    def __str__(self) -> str:
        return self.kind.text.format_map(self.values)


class ReasonKind(Generic[*Values]):
    """Makes the reasons of one kind.

    `rule` is the id of the rule in docs/rules, `subject` what it is about, `text` what happened, with the names of its
    `fields` in braces; `declare` gives it the `name` of its constant, in snake case."""

    name: str

    def __init__(self, rule: str, subject: Subject, text: str) -> None:
        self.rule, self.subject, self.text = rule, subject, text
        self.fields = tuple(field for _, field, _, _ in Formatter().parse(text) if field is not None)

    def __call__(self, *values: *Values) -> Reason:
        return Reason(self.name, values)


AnyKind: TypeAlias = ReasonKind[*tuple[Any, ...]]
KINDS: dict[str, AnyKind] = {}
"""All kinds that were imported, by name."""


def declare(constants: Mapping[str, object]) -> None:
    """Name the kinds among the constants of a module, and add them to KINDS."""
    for constant, kind in constants.items():
        if isinstance(kind, ReasonKind):
            kind.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", constant).lower()
            if KINDS.setdefault(kind.name, kind) is not kind:
                raise ValueError(f"two kinds of reasons are named {kind.name}")


class Dropped(NamedTuple):
    """Input that is not processed further; `origin` is the L1 block that was being read."""

    effect: DropEffect
    reason: Reason
    origin: L1BlockRef | None

    @property
    def label(self) -> str:
        """The value of the metric label `rule`: rule id and reason."""
        return f"{self.reason.kind.rule} {self.reason.name}"

    def __str__(self) -> str:
        return f"{self.reason.kind.subject} {PHRASES[self.effect]}: {self.reason} [{self.reason.kind.rule}]"


def _portable(value: int | str | bytes) -> int | str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else value
