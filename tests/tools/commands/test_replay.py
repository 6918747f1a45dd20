"""`rollup-node replay` on recorded OP Sepolia data, which a thread serves."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.commands.common import Outputs, parse
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.commands.replay import replay_config
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.processes.cli import Cli
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import FinishedProgram, Program
from tests.tools.commands.test_batches import batcher_transactions

RANGE = ("16491244", "16491249")
FROM_L1 = ("--from-l1", "6582944")
"""The origin of the safe head: no channel is open there."""

Replay = Callable[..., FinishedProgram]


@pytest.fixture
def replay(recorded: str, leftovers: Leftovers) -> Replay:
    """Run the command with a file of L2 blocks, from the first and to the last of these."""
    return lambda *words: Program(leftovers, "rollup_node", *_words(recorded, *words)).wait_for_exit()


@pytest.fixture
def blocks(recording_folder: Path) -> Path:
    """Return the file of known L2 blocks."""
    return recording_folder / "l2_blocks.json"


def _words(url: str, blocks: Path, first: str, last: str, *more: str) -> tuple[str, ...]:
    flags = ("--l1", url, "--l1.beacon", url, "--network", "op-sepolia", "--l2-blocks", str(blocks), "--json")
    return ("replay", *flags, "--from-l2", first, "--to-l2", last, *more)


def _numbers(done: FinishedProgram) -> list[int]:
    return [json.loads(line)["number"] for line in done.out.splitlines()]


def test_real_blocks_come_out_as_they_were_built(recorded: str, leftovers: Leftovers, blocks: Path) -> None:
    with Program(leftovers, "rollup_node", *_words(recorded, blocks, *RANGE, *FROM_L1)) as program:
        done = program.wait_for_exit()
    assert done.code == 0, done.err
    assert "warning: reading begins at L1 block 6582944" in done.err
    lines = [json.loads(line) for line in done.out.splitlines()]
    known = {int(block["number"]): block for block in json.loads(blocks.read_text())}
    assert _numbers(done) == list(range(16491245, 16491250))
    for line in lines[:-1]:
        block = known[line["number"]]
        assert line["hash"] == block["hash"]
        assert line["transactions"] == ["0x" + raw for raw in block["txs"]]
    assert (lines[-1]["hash"], len(lines[-1]["transactions"])) == (None, 12)
    assert [line["sequence_number"] for line in lines] == [4, 5, 0, 1, 2]
    assert {line["epoch"]["number"] for line in lines} == {6582944, 6582945}
    sent = batcher_transactions(blocks.parent)
    for line in lines:
        assert [sent[item] for item in line["l1_transactions"]] == [line["derived_from"]], "one transaction a channel"


def test_a_difference_ends_the_run_with_a_line_for_each_field(replay: Replay, blocks: Path, tmp_path: Path) -> None:
    known = json.loads(blocks.read_text())
    transactions = known[1]["txs"]
    transactions[1] = transactions[2]
    info = bytearray.fromhex(transactions[0])
    info[-136:-128] = bytes(8)
    transactions[0] = info.hex()
    (tmp_path / "blocks.json").write_text(json.dumps(known))
    done = replay(tmp_path / "blocks.json", *RANGE, *FROM_L1)
    assert done.code == 1
    warning, first, *more = (line for line in done.err.splitlines() if " lvl=warn " not in line)
    assert "warning" in warning
    text = "rollup-node: block 16491245 differs from the source in transaction: transaction 0 does not"
    assert first.startswith(text)
    line = json.loads(done.out)
    assert more[0] == f"rollup-node:   l1_info.number: derived {line['epoch']['number']}, in the source 0"
    assert [line.split(": ")[1].strip() for line in more[1:]] == ["transaction 0", "transaction 1"]
    assert (line["number"], line["hash"], len(line["differences"])) == (16491245, None, 4)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ("--from-l2 5 --to-l2 4 --l2 http://127.0.0.1:1", "--to-l2 4 is not after --from-l2 5"),
        ("--from-l2 1 --to-l2 4", "give the L2 source"),
        ("--to-l2 4", "--from-l2"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(flags: str, text: str, cli: Cli) -> None:
    node = ("--network", "op-sepolia", "--l1.beacon", "http://127.0.0.1:1")
    assert text in cli.refused("replay", *node, *flags.split())


def test_flags_become_a_replay(tmp_path: Path) -> None:
    parser = FlagParser("test", "A test.")
    parser.add_l2_source()
    parser.add_timeout()
    words = ("--network=op-sepolia", "--l1=http://a", "--l1.beacon=http://c", "--l2=http://b", "--timeout=30s")
    result = replay_config(parse(parser, words), Outputs(5, 6), 1, 9, RowFormat.JSON, 7)
    assert (result.first, result.last, result.base, result.output, result.errors) == (1, 9, 7, 5, 6)
    assert (result.url, result.blocks, result.timeout, result.jwt_secret) == ("http://b", None, 30.0, None)
    secret = tmp_path / "jwt"
    with pytest.raises(SetupError, match="there is no secret in"):
        replay_config(parse(parser, (*words, f"--l2.jwt-secret={secret}")), Outputs(5, 6), 1, 9, RowFormat.JSON)
