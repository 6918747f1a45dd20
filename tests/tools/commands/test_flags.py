"""The flags of commands."""

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands.flags import (
    FlagParser,
    block_number,
    chain_id,
    check_l1_range,
    check_l2_source,
    readable_file,
    timestamp,
    url,
)


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


def test_the_source_of_l2_blocks_is_an_endpoint_or_a_file(parser: FlagParser, tmp_path: Path) -> None:
    (tmp_path / "blocks").touch()
    parser.add_l2_source()
    assert parser.parse_all(["--l2", "http://a"]).l2 == "http://a"
    assert parser.parse_all(["--l2-blocks", f"{tmp_path}/blocks"]).l2_blocks == f"{tmp_path}/blocks"
    with pytest.raises(SetupError, match=r"cannot read .*/absent.*: No such file"):
        parser.parse_all(["--l2-blocks", f"{tmp_path}/absent"])


@pytest.mark.parametrize(
    ("read", "text", "error"),
    [
        (url, "ftp://a", "is not an address such as"),
        (readable_file, "/", "Is a directory"),
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


def test_the_output_flags(parser: FlagParser) -> None:
    parser.add_output()
    flags = parser.parse_all(["--out", "a.csv", "--overwrite"])
    assert (flags.out, flags.overwrite, flags.json) == ("a.csv", True, False)


def test_a_range_of_l1_blocks_does_not_end_before_it_begins() -> None:
    parser = FlagParser("test", "A test.")
    parser.add_l1_range()
    check_l1_range(parser.parse_all(["--from-l1", "5", "--to-l1", "5"]))
    with pytest.raises(SetupError, match="--to-l1 4 is before --from-l1 5"):
        check_l1_range(parser.parse_all(["--from-l1", "5", "--to-l1", "4"]))


def test_one_l2_source_is_given() -> None:
    parser = FlagParser("test", "A test.")
    parser.add_l2_source()
    check_l2_source(parser.parse_all(["--l2", "http://a"]))
    for words in ([], ["--l2", "http://a", "--l2-blocks", "/dev/null"]):
        with pytest.raises(SetupError, match="give the L2 source: "):
            check_l2_source(parser.parse_all(words))
