"""The base class of reasons, and the drops that derivation outputs.

Log line, metric label, `explain` and docs/drop-reasons.md are made from the classes that `reason` declares."""

import re
from collections.abc import Callable
from string import Formatter
from typing import ClassVar, Literal, NamedTuple, TypeVar

import msgspec

from rollup_node.stages.messages.derivation import DropEffect
from rollup_node.stages.protocol.types import L1BlockRef

Subject = Literal[
    "batch", "blob", "challenge", "channel", "commitment", "config update", "frame", "frames", "pipeline", "transaction"
]
Class = TypeVar("Class", bound="type[Reason]")

DECLARED: "dict[str, type[Reason]]" = {}
"""All reasons that were imported, by name."""

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


class Reason(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all reasons.

    `rule` is the id of the rule in docs/rules, `subject` what it is about, `text` what happened with the fields'
    names in braces, `name` the class name in snake case."""

    rule: ClassVar[str]
    subject: ClassVar[Subject]
    text: ClassVar[str]
    name: ClassVar[str]

    @property
    def values(self) -> dict[str, int | str]:
        """The fields, bytes among them as hex text with 0x."""
        return {name: _portable(getattr(self, name)) for name in self.__struct_fields__}

    def __str__(self) -> str:
        return self.text.format_map(self.values)


def reason(rule: str, subject: Subject, text: str) -> Callable[[Class], Class]:
    """Declare a reason. Raises ValueError when a name is taken or the text names a field that the class lacks."""

    def declare(declared: Class) -> Class:
        places = {place for _, place, _, _ in Formatter().parse(text) if place is not None}
        if not places <= set(declared.__struct_fields__):
            raise ValueError(f"{declared.__name__} has no fields {places - set(declared.__struct_fields__)}")
        declared.rule, declared.subject, declared.text = rule, subject, text
        declared.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z0-9])(?=[A-Z][a-z])", "_", declared.__name__).lower()
        if DECLARED.setdefault(declared.name, declared) is not declared:
            raise ValueError(f"two reasons have the name {declared.name}")
        return declared

    return declare


class Dropped(NamedTuple):
    """Input that is not processed further; `origin` is the L1 block that was being read."""

    effect: DropEffect
    reason: Reason
    origin: L1BlockRef | None

    @property
    def label(self) -> str:
        """The value of the metric label `rule`: rule id and reason."""
        return f"{self.reason.rule} {self.reason.name}"

    def __str__(self) -> str:
        return f"{self.reason.subject} {PHRASES[self.effect]}: {self.reason} [{self.reason.rule}]"


def _portable(value: int | str | bytes) -> int | str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else value
