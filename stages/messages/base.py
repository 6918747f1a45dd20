"""Base of all messages, and the state that every process publishes."""

import msgspec


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of all messages: the tag is the class name."""


class Health(Message, frozen=True, tag="Health"):
    """What is wrong with the publishing process at present; empty when healthy."""

    problems: tuple[str, ...]
