"""The flags of the commands beside the node: wrong ones end in one line, as the node's options do."""

import argparse
from typing import NoReturn

from rollup_node.node.exits import SetupError
from rollup_node.node.version import PROGRAM


class Parser(argparse.ArgumentParser):
    """A command's own flags."""

    def __init__(self, command: str, description: str, end: str | None = None) -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}", description=description, epilog=end, allow_abbrev=False, add_help=True
        )

    def error(self, message: str) -> NoReturn:
        raise SetupError(message)


def block_number(text: str) -> int:
    """A block number given as a flag."""
    return _number(text, "a block number")


def timestamp(text: str) -> int:
    """A time in seconds given as a flag."""
    return _number(text, "a time in seconds")


def chain_id(text: str) -> int:
    """A chain id given as a flag."""
    return _number(text, "a chain id")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not {what}")
    return int(text)
