"""All wrong options of a node in one report."""

from pathlib import Path

import pytest

from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.options.parsing import read_options
from rollup_node.node.setup.wrong_options import reject_wrong_options

NEEDED = ("--l2=http://e", "--network=op-sepolia", "--l1.beacon=http://b")


def lines_of(*words: str) -> tuple[str, ...]:
    with pytest.raises(WrongOptions) as caught:
        reject_wrong_options(read_options(words, {}))
    return caught.value.lines


def test_right_options_are_accepted() -> None:
    reject_wrong_options(read_options(NEEDED, {}))


def test_parsing_rules_and_chain_are_reported_together() -> None:
    lines = lines_of("--rpc.port=x", "--sequencer.sealing-duration=-1s", "--network=nothing", "--l2=http://e")
    assert [line.split(":")[0] for line in lines] == [
        'invalid value "x" for flag --rpc.port',
        "flag --sequencer.sealing-duration cannot be negative",
        "invalid network",
    ]


def test_nothing_is_called_missing_that_a_wrong_options_file_may_have(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    for content, text in ((None, "no such file or directory"), ("network = x", "not TOML"), ("netwrk = 1", "unknown")):
        if content is not None:
            file.write_text(content)
        lines = lines_of(f"--config={file}", "--rpc.port=x")
        assert text in lines[0] and "--rpc.port" in lines[1] and len(lines) == 2


@pytest.mark.parametrize("word", ["--netwrok=op-sepolia", "--network", "--l1.becon=http://b"])
def test_nothing_is_called_missing_that_a_misspelt_name_or_a_flag_without_value_may_mean(word: str) -> None:
    (line,) = lines_of(word)
    assert line.startswith(("unknown flag", "flag --network needs a value"))
    assert lines_of("--network=op-sepolia", "--l2=http://e", "--l1.becon=http://b") == (
        "unknown flag --l1.becon; did you mean --l1.beacon?",
    )


def test_an_invalid_value_is_reported_once_and_is_not_missing() -> None:
    (line,) = lines_of("--network=op-sepolia", "--l2=ftp://e", "--l1.beacon=http://b")
    assert line.startswith('invalid value "ftp://e" for flag --l2')


def test_what_only_the_plan_finds_is_reported() -> None:
    (line,) = lines_of(*NEEDED, "--p2p.bootnodes=nonsense")
    assert "nonsense" in line


def test_what_a_configuration_lacks_is_a_line() -> None:
    (line,) = lines_of(*NEEDED, "--signer.endpoint=http://h")
    assert line.startswith("signer endpoint and address must both be set")
