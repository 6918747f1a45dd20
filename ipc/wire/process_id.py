"""Identity of processes: a slot of the process table, and how often a process has been started in it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Slots = Mapping[tuple[str, str], Sequence[int]]
"""The slots of each role in each group; the group "" is that of the shared processes [LIF33].

A role that serves a channel has exactly one in each group that has it."""

_PREFIX = b"row"


class ProcessId(NamedTuple):
    """A process: its slot, and its incarnation, which counts the starts in that slot from 1."""

    slot: int
    incarnation: int

    def routing_id(self) -> bytes:
        """Its routing id for ROUTER sockets: 13 bytes."""
        return _PREFIX + self.slot.to_bytes(2, "big") + self.incarnation.to_bytes(8, "big")


def process_id_of(routing_id: bytes) -> ProcessId | None:
    """Return the process with that routing id, or None when it is malformed."""
    if len(routing_id) != len(_PREFIX) + 10 or not routing_id.startswith(_PREFIX):
        return None
    return ProcessId(int.from_bytes(routing_id[3:5], "big"), int.from_bytes(routing_id[5:], "big"))
