"""An entry of the table of codes."""

from enum import Enum

FINDING, EVENT = "finding", "event"


class CodeEntry(Enum):
    """The value is the meaning and the remedy, each one line, and FINDING for what the checks before a start alone
    find, or EVENT for what happens at one moment; all others name conditions that last."""

    @property
    def text(self) -> str:
        """The code as it is written, such as BLOB-EXPIRED."""
        return self.name.replace("_", "-")

    @property
    def meaning(self) -> str:
        """What the condition is."""
        return str(self.value[0])

    @property
    def remedy(self) -> str:
        """What the operator can do."""
        return str(self.value[1])

    def before(self, text: str) -> str:
        """A text with the code in front of it, where `code_in` finds it."""
        return f"{self.text}: {text}"

    @property
    def is_finding(self) -> bool:
        """Whether the checks before a start alone have this code, and no condition of a running node."""
        return FINDING in self.value[2:]

    @property
    def is_event(self) -> bool:
        """Whether it names what happens at one moment, and no condition that lasts."""
        return EVENT in self.value[2:]
