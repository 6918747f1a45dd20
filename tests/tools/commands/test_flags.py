"""The flags of commands, where the tests of a command do not reach them."""

import argparse
from collections.abc import Callable

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands.flags import FlagParser, block_number, chain_id, readable_file, timestamp, url


@pytest.fixture
def parser() -> FlagParser:
    parser = FlagParser("test", "A test.")
    parser.add_argument("--from-l1", type=block_number, metavar="N")
    return parser


def test_flags_are_parsed(parser: FlagParser) -> None:
    assert parser.parse_all(["--from-l1", "5"]).from_l1 == 5
    assert parser.flags == ["h", "help", "from-l1"]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--from-l1", "x"], "argument --from-l1: 'x' is not a block number"),
        (["--from-1", "5"], "unknown flag --from-1; did you mean --from-l1?"),
        (["word"], "unexpected argument word"),
        (["--from"], "unknown flag --from"),
    ],
)
def test_errors_are_one_line(parser: FlagParser, words: list[str], error: str) -> None:
    with pytest.raises(SetupError) as caught:
        parser.parse_all(words)
    assert str(caught.value).startswith(error) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("read", "text", "error"),
    [
        (url, "ftp://a", "it takes http or https, not ftp"),
        (url, "h", "is not an address such as"),
        (readable_file, "/", "Is a directory"),
        (readable_file, "nowhere", "No such file"),
        (block_number, "-1", "is not a block number"),
        (block_number, str(1 << 63), "is not a block number"),
        (timestamp, "soon", "is not a time in seconds"),
        (chain_id, "0x1", "is not a chain id"),
    ],
)
def test_invalid_values(read: Callable[[str], object], text: str, error: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=error):
        read(text)


def test_the_largest_numbers() -> None:
    assert block_number(str((1 << 63) - 1)) == (1 << 63) - 1


def test_a_timeout_is_a_time_above_zero(parser: FlagParser) -> None:
    parser.add_timeout()
    assert parser.parse_all([]).timeout is None
    assert parser.parse_all(["--timeout", "1m30s"]).timeout == 90.0
    for text in ("0s", "-1s", "5", "soon", ""):
        with pytest.raises(SetupError, match="is not a time above 0 such as 30s or 2m"):
            parser.parse_all([f"--timeout={text}"])
