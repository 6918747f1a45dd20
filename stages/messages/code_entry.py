"""An entry of the table of codes."""

from enum import Enum

FINDING, EVENT = "finding", "event"


class CodeEntry(Enum):
    """A member is written as its meaning and its remedy, each one line, and FINDING for what the checks before a start
    alone find, or EVENT for what happens at one moment; all others name conditions that last. The value is its place in
    the table, so that messages carry members."""

    def __new__(cls, meaning: str, remedy: str, kind: str = "") -> "CodeEntry":
        """Make the next member."""
        entry = object.__new__(cls)
        entry._value_ = len(cls.__members__)
        entry.meaning, entry.remedy, entry.kind = meaning, remedy, kind
        return entry

    meaning: str
    """What the condition is."""
    remedy: str
    """What the operator can do."""
    kind: str

    @property
    def text(self) -> str:
        """The code as it is written, such as BLOB-EXPIRED."""
        return self.name.replace("_", "-")

    @property
    def is_finding(self) -> bool:
        """Whether the checks before a start alone have this code, and no condition of a running node."""
        return self.kind == FINDING

    @property
    def is_event(self) -> bool:
        """Whether it names what happens at one moment, and no condition that lasts."""
        return self.kind == EVENT
