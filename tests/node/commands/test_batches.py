"""`rollup-node batches` on recorded OP Sepolia data: server and node are separate processes."""

import gzip
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.commands.batches import main
from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.exit_codes import ExitCode, SetupError
from rollup_node.stages.protocol.keccak import keccak256
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import FinishedProgram, Program

FIRST, LAST = 6582895, 6582952
SPANS, BLOCKS, TRANSACTIONS = 26, 479, 3603
END_SECONDS = 50.0


def serve(leftovers: Leftovers, folder: Path, *flags: str) -> tuple[Program, str]:
    """A server of a recording, and its URL."""
    server = Program(leftovers, "rollup_node.tools.recorded", str(folder), *flags)
    return server, server.wait_for_line("serving L1").split()[-1]


@pytest.fixture(scope="module")
def recording(shared_data: Path) -> Path:
    """The folder of the recorded data."""
    return shared_data / "op_sepolia_replay"


@pytest.fixture(scope="module")
def url(module_leftovers: Leftovers, recording: Path) -> Iterator[str]:
    """A server of the recording as it is."""
    server, url = serve(module_leftovers, recording)
    with server:
        yield url


def start(leftovers: Leftovers, url: str, first: int, last: int, *words: str) -> Program:
    """Starts the command."""
    flags = ("--l1", url, "--l1.beacon", url, "--network", "op-sepolia", "--from-l1", str(first), "--to-l1", str(last))
    return Program(leftovers, "rollup_node.node", "batches", *flags, *words)


def batcher_transactions(recording: Path) -> dict[str, int]:
    """The L1 block of each recorded transaction to the inbox, by the transaction's hash."""
    inbox, found = find_network("op-sepolia").config.batch_inbox.hex(), {}
    with gzip.open(recording / "l1_blocks.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            for raw in line.get("txs", ()):
                if inbox in raw:
                    found["0x" + keccak256(bytes.fromhex(raw)).hex()] = line["number"]
    return found


def assert_as_expected(ended: FinishedProgram, recording: Path) -> None:
    expected = json.loads((recording / "expected.json").read_text())
    found = [json.loads(line) for line in ended.lines()]
    sent = batcher_transactions(recording)
    for line in found:
        transactions = line.pop("l1_transactions")
        assert all(sent[each] <= line["inclusion"] for each in transactions)
        assert sent[transactions[-1]] == line["inclusion"]
        assert line.pop("channel_bytes") > 1000
        assert 0 < line.pop("inclusion_timestamp") - line["first_timestamp"] < 3600
    assert found == [
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
    assert len(found) == SPANS
    assert sum(line["blocks"] for line in found) == BLOCKS
    assert sum(line["transactions"] for line in found) == TRANSACTIONS


def test_all_spans_come_out(module_leftovers: Leftovers, url: str, recording: Path) -> None:
    with start(module_leftovers, url, FIRST, LAST, "--json") as command:
        assert_as_expected(command.wait_for_exit(END_SECONDS), recording)


def test_all_spans_come_out_of_sidecars_as_text_and_by_several_workers(
    module_leftovers: Leftovers, recording: Path
) -> None:
    spans = json.loads((recording / "expected.json").read_text())["spans"]
    server, url = serve(module_leftovers, recording, "--sidecars-only")
    with server, start(module_leftovers, url, FIRST, LAST, "--workers", "2") as command:
        ended = command.wait_for_exit(END_SECONDS)
    for line, span in zip(ended.lines(), spans, strict=True):
        assert (
            line.startswith(f"L1 {span['inclusion']}  2024-08-27T") and f"  channel {span['channel']}  bytes " in line
        )
        assert f"  span  L2 {span['first_l2']}-{span['first_l2'] + span['blocks'] - 1}  time " in line
        assert line.endswith(f"  blocks {span['blocks']}  transactions {span['txs']}  {span['tx_hashes_sha256']}")


def damaged(recording: Path, folder: Path) -> int:
    """A copy of the recording in which one L1 block has another transaction; the number of the block."""
    folder.mkdir()
    for file in recording.iterdir():
        shutil.copyfile(file, folder / file.name)
    with gzip.open(recording / "l1_blocks.jsonl.gz", "rt") as lines:
        blocks = [json.loads(line) for line in lines]
    damaged = next(block for block in blocks if len(block.get("txs", ())) > 3)
    damaged["txs"][0] = damaged["txs"][1]
    with gzip.open(folder / "l1_blocks.jsonl.gz", "wt") as lines:
        lines.writelines(json.dumps(block) + "\n" for block in blocks)
    return int(damaged["number"])


def test_unavailable_data_end_the_command_with_one_line(module_leftovers: Leftovers, url: str, recording: Path) -> None:
    """The commands run concurrently, because each waits for the data until its timeout."""
    timeout = ("--timeout", "15s")
    leftovers, folder = module_leftovers, module_leftovers.folder / "damaged"
    block = damaged(recording, folder)
    server, damaged_url = serve(leftovers, folder)
    absent = f"{url.removeprefix('http://')}: error -32000: L1 block {FIRST - 1} was not recorded"
    cases = [
        (url, FIRST - 1, FIRST + 1, f"L1 block {FIRST - 1}: {absent}"),
        (damaged_url, block, block, f"L1 block {block}: {damaged_url.removeprefix('http://')}: the transactions of"),
    ]
    with server, ExitStack() as running:
        commands = [running.enter_context(start(leftovers, at, first, last, *timeout)) for at, first, last, _ in cases]
        for command, (_, _, _, error) in zip(commands, cases, strict=True):
            ended = command.wait_for_exit(END_SECONDS)
            *log, line = ended.err.splitlines()
            assert ended.code == 1
            assert line.startswith(f"rollup-node: L1-BLOCK: {error}"), line
            assert all(" lvl=warn " in each for each in log) and "Traceback" not in ended.err, ended.err


def test_an_interrupted_run_does_not_count_as_done(module_leftovers: Leftovers) -> None:
    """The L1 chain grows meanwhile, so that the command neither finishes nor times out."""
    with LocalChain(module_leftovers) as chain:
        files = ("--rollup.config", str(chain.files.rollup), "--rollup.l1-chain-config", str(chain.files.l1_chain))
        l1 = ("--l1", chain.l1, "--l1.beacon", chain.beacon, "--l1.http-poll-interval", "200ms")
        words = ("--from-l1", "0", "--to-l1", "1000000", "--json", "--log.level", "info")
        with Program(module_leftovers, "rollup_node.node", "batches", *l1, *files, *words) as command:
            command.wait_for_line("node is ready", on_stderr=True)
            ended = command.stop()
    assert (ended.code, ended.out) == (ExitCode.INTERRUPTED, "")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((LAST, FIRST), f"--to-l1 {FIRST} is before --from-l1 {LAST}"),
        ((FIRST, "x"), "'x' is not a block number"),
        ((FIRST, LAST, "--batcher=0x12"), "'0x12' is not an address of 20 bytes in hex"),
        ((FIRST, LAST, "--bacher=0x12"), "unknown flag --bacher; did you mean --batcher?"),
        ((FIRST, LAST, "--l1.max-concurrency=0"), "max concurrent requests cannot be less than 1"),
    ],
)
def test_wrong_flags(module_leftovers: Leftovers, words: tuple[Any, ...], error: str) -> None:
    with start(module_leftovers, "http://127.0.0.1:1", *words) as command:
        assert error in command.wait_for_exit(END_SECONDS).error_line()


def test_chains_whose_batches_are_not_on_l1_are_refused() -> None:
    flags = ("--l1=http://127.0.0.1:1", "--l1.beacon.ignore", "--network=redstone-mainnet", "--altda.enabled")
    words = (*flags, "--altda.da-server=http://127.0.0.1:1", "--from-l1=1", "--to-l1=2")
    with pytest.raises(SetupError, match="the batches of redstone-mainnet are kept by a DA server"):
        main(words)
    with pytest.raises(SetupError, match="no DA server was given"):
        main([word for word in words if "da-server" not in word])
