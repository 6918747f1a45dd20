"""Base of all messages, and the state that every process publishes."""

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages: the tag is the class name."""


class QueueLength(Message, frozen=True, tag="QueueLength"):
    """What waits in the publishing process: for l1 the L1 blocks that it fetches, for blobs requests, for derivation L1
    blocks that it has not read, for engine unsafe blocks. `tasks` are those that compute has not completed for it."""

    items: int
    tasks: int


class Health(Message, frozen=True, tag="Health"):
    """What is wrong with the publishing process at present; empty when healthy."""

    problems: tuple[str, ...]
