"""Who is who: processes are rows of the process table, and a row has had as many incarnations as starts."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Rows = Mapping[str, Sequence[int]]
"""The row numbers of each role; a role that serves a channel has exactly one."""

_IDENTITY = b"row"


class ProcessId(NamedTuple):
    """A process: its row and which incarnation of that row it is."""

    row: int
    incarnation: int

    def identity(self) -> bytes:
        """Its name towards a ROUTER socket."""
        return _IDENTITY + self.row.to_bytes(2, "big") + self.incarnation.to_bytes(8, "big")


def process_id_of(identity: bytes) -> ProcessId | None:
    """The process that calls itself `identity`, or None when it is no such name."""
    if len(identity) != len(_IDENTITY) + 10 or not identity.startswith(_IDENTITY):
        return None
    return ProcessId(int.from_bytes(identity[3:5], "big"), int.from_bytes(identity[5:], "big"))
