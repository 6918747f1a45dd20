"""`rollup-node batches` on recorded OP Sepolia data, which a thread serves."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.exit_codes import ExitCode
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.recorded.recording import Recording
from rollup_node.tools.recorded.server import serving
from tests.support.processes.cli import Cli
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import FinishedProgram, Program
from tests.support.servers.threads import in_thread

FIRST, LAST = 6582895, 6582952
SPANS, BLOCKS, TRANSACTIONS = 26, 479, 3603
END_SECONDS = 50.0


def flags(url: str, first: Any, last: Any) -> tuple[str, ...]:
    """Return the flags of the command over these L1 blocks."""
    return ("--l1", url, "--l1.beacon", url, "--network", "op-sepolia", "--from-l1", str(first), "--to-l1", str(last))


def start(leftovers: Leftovers, url: str, first: int, last: int, *words: str) -> Program:
    """Start the command as a program."""
    return Program(leftovers, "rollup_node", "batches", *flags(url, first, last), *words)


def batcher_transactions(folder: Path) -> dict[str, int]:
    """Return the L1 block of each recorded transaction to the inbox, by the transaction's hash."""
    inbox, result = find_network("op-sepolia").config.batch_inbox.hex(), {}
    with gzip.open(folder / "l1_blocks.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            for raw in line.get("txs", ()):
                if inbox in raw:
                    result["0x" + keccak256(bytes.fromhex(raw)).hex()] = line["number"]
    return result


def assert_as_expected(ended: FinishedProgram, folder: Path) -> None:
    expected = json.loads((folder / "expected.json").read_text())
    result = [json.loads(line) for line in ended.lines()]
    sent = batcher_transactions(folder)
    for line in result:
        transactions = line.pop("l1_transactions")
        assert all(sent[transaction] <= line["inclusion"] for transaction in transactions)
        assert sent[transactions[-1]] == line["inclusion"]
        assert line.pop("channel_bytes") > 1000
        assert 0 < line.pop("inclusion_timestamp") - line["first_timestamp"] < 3600
    assert result == [
        {
            "inclusion": span["inclusion"],
            "channel": span["channel"],
            "kind": "span",
            "first_block": span["first_l2"],
            "last_block": span["first_l2"] + span["blocks"] - 1,
            "first_timestamp": expected["genesis_l2_time"] + expected["block_time"] * span["first_l2"],
            "blocks": span["blocks"],
            "transactions": span["txs"],
            "parent_check": span["parent_check"],
            "tx_hashes_sha256": span["tx_hashes_sha256"],
        }
        for span in expected["spans"]
    ]
    assert len(result) == SPANS
    assert sum(line["blocks"] for line in result) == BLOCKS
    assert sum(line["transactions"] for line in result) == TRANSACTIONS


def test_all_spans_come_out(module_leftovers: Leftovers, recorded: str, recording_folder: Path) -> None:
    with start(module_leftovers, recorded, FIRST, LAST, "--json") as command:
        assert_as_expected(command.wait_for_exit(END_SECONDS), recording_folder)


def damaged(recording: Recording, number: int) -> Recording:
    """Return the recording with another transaction in that L1 block."""
    blocks = dict(recording.by_number)
    transactions = blocks[number].transactions
    assert transactions is not None and len(transactions) > 3
    blocks[number] = replace(blocks[number], transactions=(transactions[1], *transactions[1:]))
    return Recording(list(blocks.values()), recording.blobs)


def test_unavailable_data_end_the_command_with_one_line(leftovers: Leftovers, recording: Recording) -> None:
    with in_thread(serving(damaged(recording, FIRST), 0, blobs_endpoint=True)) as url:
        ended = start(leftovers, url, FIRST, FIRST, "--timeout", "3s").wait_for_exit(END_SECONDS)
    *log, line = ended.err.splitlines()
    place = f"L1-BLOCK: L1 block {FIRST}: {url.removeprefix('http://')}"
    assert ended.code == 1 and line.startswith(f"rollup-node: {place}: the transactions of"), line
    assert all(" lvl=warn " in item for item in log) and "Traceback" not in ended.err, ended.err


def test_an_interrupted_run_does_not_count_as_done(module_leftovers: Leftovers, recorded: str) -> None:
    """The L1 head is not the last block of the range yet, so that the command neither finishes nor times out."""
    with start(module_leftovers, recorded, LAST, LAST + 1, "--json") as command:
        command.wait_for_line('"last_block":16491249')
        ended = command.stop()
    assert (ended.code, len(ended.out.splitlines())) == (ExitCode.INTERRUPTED, 7)


def test_chains_whose_batches_are_not_on_l1_are_refused(cli: Cli) -> None:
    chain = ("--l1=http://127.0.0.1:1", "--l1.beacon.ignore", "--network=redstone-mainnet", "--altda.enabled")
    ended = cli("batches", *chain, "--from-l1=1", "--to-l1=2", "--altda.da-server=http://127.0.0.1:1")
    assert ended.code == 1 and "the batches of redstone-mainnet are kept by a DA server" in ended.err
