"""The flags of the commands: a wrong one ends in one line, as a wrong option of the node does."""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import NoReturn

from rollup_node.node.options.errors import ValueHint, WrongOptions, did_you_mean, shown, shown_url
from rollup_node.node.options.given_files import opened_given_file
from rollup_node.node.options.value_types import HTTP_URL, parse_duration
from rollup_node.node.system.exit_codes import PROGRAM, SetupError

_MISSING = "the following arguments are required: "


class FlagParser(argparse.ArgumentParser):
    """The flags of one command. Its errors are SetupErrors."""

    def __init__(self, command: str, description: str, epilog: str | None = None) -> None:
        super().__init__(
            prog=f"{PROGRAM} {command}", description=description, epilog=epilog, allow_abbrev=False, add_help=True
        )

    def error(self, message: str) -> NoReturn:
        names = message.removeprefix(_MISSING)
        if names == message:
            raise SetupError(message)
        raise WrongOptions(
            f"{name} is required: {', '.join(action.choices or ()) or action.help}"
            for action in self._actions
            if (name := "/".join(action.option_strings) or action.metavar or action.dest) in names.split(", ")
        )

    def add_l1_range(self) -> None:
        """Add the flags for a range of L1 blocks."""
        self.add_argument("--from-l1", type=block_number, required=True, metavar="A", help="first L1 block")
        self.add_argument("--to-l1", type=block_number, required=True, metavar="B", help="last L1 block, included")

    def add_l2_range(self) -> None:
        """Add the flags for a range of L2 blocks."""
        self.add_argument(
            "--from-l2", type=block_number, required=True, metavar="N", help="the safe head to begin with"
        )
        self.add_argument("--to-l2", type=block_number, required=True, metavar="M", help="the last block to derive")

    def add_l2_source(self) -> None:
        """Add the flags that choose the source of L2 blocks."""
        source = "an execution engine's JSON-RPC with the L2 blocks; its authenticated port with --l2.jwt-secret"
        self.add_argument("--l2", type=url, metavar="URL", help=source)
        file = "a JSON file with L2 blocks, in place of --l2"
        self.add_argument("--l2-blocks", type=readable_file, metavar="FILE", help=file)

    def add_output(self) -> None:
        """Add the flags that say where and in which form results are written."""
        self.add_argument("--json", action="store_true", help="one JSON object a line")
        self.add_argument("--out", metavar="FILE", help="write to this file, which ends in .jsonl or .csv")
        self.add_argument("--overwrite", action="store_true", help="replace the file of --out if it exists")

    def add_timeout(self) -> None:
        """Add the flag for the time that the command waits for data."""
        text = "give up after this time without progress, such as 30s; without it the command waits"
        self.add_argument("--timeout", type=timeout, metavar="DURATION", help=text)

    @property
    def flags(self) -> list[str]:
        """The names of all flags, without dashes."""
        return [name.lstrip("-") for action in self._actions for name in action.option_strings]

    def parse_all(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Parse a whole command line. Raises SetupError for an unknown flag or argument."""
        flags, rest = self.parse_known_args(list(arguments))
        if rest:
            word = rest[0].partition("=")[0]
            what = f"unknown flag {word}" if word.startswith("-") else f"unexpected argument {word}"
            raise SetupError(f"{what}{did_you_mean(word.lstrip('-'), self.flags, prefix='--')}")
        return flags


def check_l1_range(flags: argparse.Namespace) -> None:
    """Raise SetupError for a range of L1 blocks that ends before it begins."""
    if flags.to_l1 < flags.from_l1:
        raise SetupError(f"--to-l1 {flags.to_l1} is before --from-l1 {flags.from_l1}")


def check_l2_range(flags: argparse.Namespace) -> None:
    """Raise SetupError for a range of L2 blocks without any."""
    if flags.to_l2 <= flags.from_l2:
        raise SetupError(f"--to-l2 {flags.to_l2} is not after --from-l2 {flags.from_l2}")


def check_l2_source(flags: argparse.Namespace) -> None:
    """Raise SetupError unless exactly one source of L2 blocks is given."""
    if (flags.l2 is None) == (flags.l2_blocks is None):
        raise SetupError("give the L2 source: either --l2 URL or --l2-blocks FILE")


def source_words(flags: argparse.Namespace) -> tuple[str, ...]:
    """Return the words that give another command the same source of L2 blocks and the same timeout."""
    source: tuple[str, ...] = ()
    if flags.l2 is not None:
        source = ("--l2", flags.l2)
    elif flags.l2_blocks is not None:
        source = ("--l2-blocks", os.path.abspath(flags.l2_blocks))
    return source if flags.timeout is None else (*source, "--timeout", f"{flags.timeout:g}s")


def url(text: str) -> str:
    """Return the HTTP address in a flag. Raises ArgumentTypeError for any other text."""
    try:
        return str(HTTP_URL.read(text))
    except ValueHint as error:
        raise argparse.ArgumentTypeError(f"{shown_url(text)}: {error}") from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shown_url(text)} is not {HTTP_URL.expected}") from None


def readable_file(text: str) -> str:
    """Return the path of a file that can be opened. Raises ArgumentTypeError for any other."""
    try:
        with opened_given_file(text):
            return text
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise argparse.ArgumentTypeError(f"cannot read {shown(text)}: {reason}") from None


def block_number(text: str) -> int:
    """Return the block number in a flag. Raises ArgumentTypeError for any other text."""
    return _number(text, "a block number")


def timeout(text: str) -> float:
    """Return the seconds of the duration in a flag.

    Raises ArgumentTypeError for any other text, and unless it is above 0."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a time above 0 such as 30s or 2m")
    return seconds


def positive(most: int) -> Callable[[str], int]:
    """Return the type of a flag whose value is a number from 1 to `most`."""

    def number(text: str) -> int:
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 0
        if not 1 <= value <= most:
            raise argparse.ArgumentTypeError(f"{text[:80]!r} is not a number from 1 to {most}")
        return value

    return number


def timestamp(text: str) -> int:
    """Return the time in seconds in a flag. Raises ArgumentTypeError for any other text."""
    return _number(text, "a time in seconds")


def chain_id(text: str) -> int:
    """Return the chain id in a flag. Raises ArgumentTypeError for any other text."""
    return _number(text, "a chain id")


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20) or int(text) >= 1 << 63:
        raise argparse.ArgumentTypeError(f"{text[:80]!r} is not {what}")
    return int(text)
