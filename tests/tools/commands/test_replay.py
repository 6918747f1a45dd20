"""`rollup-node replay` on recorded OP Sepolia data, which a thread serves."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
