"""`rollup-node decode` on all recorded data, its exit codes and its errors."""

import csv
import json
import subprocess
import sys
import zlib
from collections.abc import Callable
from gzip import open as open_gzip
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.blobs.tasks import decode_blob
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.transactions import inbox_transactions
from tests.support.processes.cli import Cli
from tests.support.processes.programs import FinishedProgram

ON_OP_SEPOLIA = ("--network", "op-sepolia")
CONFIG = find_network("op-sepolia").config
OP_MAINNET = ("--chain-id", 10, "--genesis-time", 1686068903)


class Ran:
    """How a run ended."""

    def __init__(self, ended: FinishedProgram) -> None:
        self.code, self.err, self.lines = ended.code, ended.err.splitlines(), ended.out.splitlines()
        self.batches = [json.loads(line) for line in self.lines if line.startswith("{")]

    @property
    def counts(self) -> list[tuple[str, int, int]]:
        return [(batch["kind"], batch["blocks"], batch["transactions"]) for batch in self.batches]


Decode = Callable[..., Ran]


@pytest.fixture
def decode(cli: Cli) -> Decode:
    """Run the command in this process."""

    def run(*words: object, as_json: bool = True) -> Ran:
        return Ran(cli("decode", *words, *(["--json"] if as_json else [])))

    return run


# --- real data -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def blocks(recording_folder: Path) -> list[list[bytes]]:
    """Return the recorded transactions of 58 L1 blocks."""
    with open_gzip(recording_folder / "l1_blocks.jsonl.gz", "rt") as lines:
        return [[bytes.fromhex(text) for text in line.get("txs", ())] for line in map(json.loads, lines)]


@pytest.fixture(scope="module")
def recorded_data(blocks: list[list[bytes]], recording_folder: Path) -> list[bytes]:
    """Return the data of the batcher's transactions, call data and blobs in order."""
    result: list[bytes] = []
    for transactions in blocks:
        for sent in inbox_transactions(transactions, CONFIG.batch_inbox, CONFIG.l1_chain_id):
            if sent.sender == CONFIG.genesis.system_config.batcher:
                blobs = [(recording_folder / f"blob_{blob.hash.hex()}.bin").read_bytes() for blob in sent.blobs]
                result += [decode_blob(blob) for blob in blobs] or [sent.data]
    return result


@pytest.fixture(scope="module")
def expected(recording_folder: Path) -> Any:
    return json.loads((recording_folder / "expected.json").read_text())


def test_all_26_spans(decode: Decode, recorded_data: list[bytes], expected: Any, tmp_path: Path) -> None:
    files = [tmp_path / f"{number:03}" for number in range(len(recorded_data))]
    for number, (path, data) in enumerate(zip(files, recorded_data, strict=True)):
        path.write_bytes(data if number % 2 else b"0x" + data.hex().encode())
    ran = decode(*files, "--as", "data", *ON_OP_SEPOLIA)
    assert (ran.code, ran.err) == (0, [])
    channel_bytes = {batch["channel"]: batch.pop("channel_bytes") for batch in ran.batches}
    frames = sum(map(len, recorded_data))
    assert frames - 30 * len(recorded_data) < sum(channel_bytes.values()) < frames
    assert ran.batches == [
        {name: span[name] for name in ("channel", "blocks", "parent_check", "tx_hashes_sha256")}
        | {"kind": "span", "transactions": span["txs"], "first_block": span["first_l2"]}
        | {"last_block": span["first_l2"] + span["blocks"] - 1}
        | {"first_timestamp": expected["genesis_l2_time"] + 2 * span["first_l2"]}
        for span in expected["spans"]
    ]
    assert (len(ran.batches), sum(batch["blocks"] for batch in ran.batches)) == (26, 479)
    assert sum(batch["transactions"] for batch in ran.batches) == 3603


def test_a_recorded_transaction_has_its_hash(decode: Decode, blocks: list[list[bytes]], tmp_path: Path) -> None:
    raw = next(raw for transactions in blocks for raw in transactions if raw[0] == 2 and CONFIG.batch_inbox in raw)
    (tmp_path / "raw").write_text(f"0x{raw.hex()}")
    ran = decode(tmp_path / "raw", "--as", "transaction", *ON_OP_SEPOLIA)
    assert ran.code == 0
    assert {tuple(batch["l1_transactions"]) for batch in ran.batches} == {(f"0x{keccak256(raw).hex()}",)}


@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [
        ("magi_batcher_transactions.bin", "data", [("singular", 1, n) for n in (7, 2, 0, 2, 1, 2)]),
        ("magi_batcher_transactions.bin", "frames", [("singular", 1, n) for n in (7, 2, 0, 2, 1, 2)]),
        ("hildr_batches_0.bin", "channel", [("span", 84, 9)]),
        ("kona_batch.bin", "channel", [("span", 143, 1766)]),
    ],
)
def test_channels(decode: Decode, shared_data: Path, name: str, kind: str, counts: list[Any]) -> None:
    ran = decode(shared_data / "channels" / name, "--as", kind, *OP_MAINNET)
    assert (ran.code, ran.err, ran.counts) == (0, [], counts)


@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [
        ("kona_raw_batch.bin", "raw-span", ("span", 4, 39)),
        ("kona_span_batch_history.bin", "batch", ("span", 84, 9)),
        ("spanbatchoriginbits.txt", "raw-span", ("span", 256, 2233)),
    ],
)
def test_raw_spans(decode: Decode, shared_data: Path, name: str, kind: str, counts: Any) -> None:
    path = shared_data / "span_batch_vectors" / name
    ran = decode(path, "--as", kind, "--chain-id", 11155420, "--genesis-time", 1691802540)
    assert (ran.code, ran.err, ran.counts) == (0, [], [counts])


def test_blobs_that_hold_no_batches(decode: Decode, shared_data: Path) -> None:
    for number, rule in enumerate(("P2", "P2", "P3", "P5", "P5", "P5", "P5", "P1"), start=1):
        path = shared_data / "blobs" / f"blob{number}.txt"
        ran = decode(path, "--as", "blob")
        (line,) = ran.err
        assert (ran.code, ran.batches) == (1, [])
        assert line.startswith(f"rollup-node: {path} (data of the blob): offset ") and line.endswith(f"[{rule}]")


def test_the_blocks_of_a_real_span(
    decode: Decode, recording_folder: Path, tmp_path: Path, recorded_data: list[bytes]
) -> None:
    for number, data in enumerate(recorded_data[-3:]):
        (tmp_path / str(number)).write_bytes(data)
    ran = decode(*sorted(tmp_path.iterdir()), "--as", "data", *ON_OP_SEPOLIA, "--full")
    known = json.loads((recording_folder / "l2_blocks.json").read_text())
    users = {int(block["number"]): ["0x" + raw for raw in block["txs"] if not raw.startswith("7e")] for block in known}
    result = ran.batches[-1]["l2_blocks"]
    numbers = list(range(16491245, 16491250))
    assert [(block["timestamp"] - CONFIG.genesis.l2_time) // 2 for block in result] == numbers
    assert [block["number"] for block in result] == numbers
    assert [block["transactions"] for block in result[:4]] == [users[number] for number in numbers[:4]]
    assert [block["epoch"] for block in result] == [{"number": n} for n in (6582944, 6582944, *[6582945] * 3)]


# --- flags and errors ----------------------------------------------------------------------------------------------


@pytest.fixture
def hildr(shared_data: Path) -> Path:
    return shared_data / "channels" / "hildr_batches_1.bin"


def test_text_output(decode: Decode, hildr: Path) -> None:
    assert decode(hildr, "--as", "channel", as_json=False).lines == [
        f"bytes {hildr.stat().st_size}  singular  time 1986837747 2032-12-16T19:22:27Z  blocks 1  transactions 20  "
        "fe6c26fe4a22605d40530d93d81be0b79b460519f68dd85829685ebbc2d7fa2f"
    ]
    full = decode(hildr, "--as", "channel", "--full", as_json=False)
    assert len(full.lines) == 22 and full.lines[1].startswith("  block of time 1986837747  epoch ")


def test_numbers_of_blocks_by_a_genesis_of_ones_own(decode: Decode, shared_data: Path) -> None:
    words = (shared_data / "channels" / "kona_batch.bin", "--as", "channel")
    (batch,) = decode(*words, *OP_MAINNET, "--genesis-block", 105235063).batches
    (of_network,) = decode(*words, "--network", "op-mainnet").batches
    assert batch == of_network and (batch["first_block"], batch["last_block"]) == (121382930, 121383072)
    full = decode(*words, *OP_MAINNET, "--full", as_json=False).lines
    assert full[1] == "  L2 16147867  time 1718364637 2024-06-14T11:30:37Z  epoch 20089746"


def test_results_in_a_file(decode: Decode, hildr: Path, tmp_path: Path) -> None:
    words = (hildr, "--as", "channel", "--out")
    ran = decode(*words, tmp_path / "a.jsonl", "--full")
    assert (ran.code, ran.lines) == (0, [])
    line = json.loads((tmp_path / "a.jsonl").read_text())
    assert len(line["l2_blocks"][0]["transactions"]) == 20
    assert decode(*words, tmp_path / "a.csv", as_json=False).code == 0
    (row,) = csv.DictReader((tmp_path / "a.csv").read_text().splitlines())
    assert (row["kind"], row["transactions"], row["tx_hashes_sha256"]) == ("singular", "20", line["tx_hashes_sha256"])
    ran = decode(*words, tmp_path / "b.csv", "--full", as_json=False)
    assert (ran.code, ran.err) == (1, ["rollup-node: --full has no place in a .csv file: name one that ends in .jsonl"])
    (tmp_path / "no channel").write_bytes(b"\x05")
    assert decode(tmp_path / "no channel", "--as", "channel", "--out", tmp_path / "c.csv", as_json=False).code == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.jsonl", "no channel"]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ((*OP_MAINNET, "--fork-time", "Delta=1718364637"), ""),
        ((*OP_MAINNET, "--fork-time", "delta=1718364638"), "before span batches are allowed [BE5]"),
        ((*OP_MAINNET, "--fork-time", "delta=5", "--l1-time", 4), "[BE5]"),
        (("--network", "op-mainnet", "--fork-time", "delta=2000000000"), "[BE5]"),
    ],
)
def test_forks_restrict(flags: tuple[object, ...], error: str, decode: Decode, shared_data: Path) -> None:
    span = shared_data / "channels" / "kona_batch.bin"
    ran = decode(span, "--as", "channel", *flags)
    assert (ran.code, len(ran.batches)) == ((1, 0) if error else (0, 1))
    text = f"rollup-node: {span}: decompressed offset 0: batch dropped: span batch at L1 block time "
    assert [line.startswith(text) and line.endswith(error) for line in ran.err] == [True] * bool(error)


def test_spans_without_the_chain_are_a_warning(decode: Decode, shared_data: Path) -> None:
    ran = decode(shared_data / "channels" / "kona_batch.bin", "--as", "channel")
    assert ran.code == 0
    assert ran.err == [
        "rollup-node: warning: of span batches the transactions' hashes are those of chain id 0 (no --chain-id), times"
        " count from genesis (no --genesis-time)"
    ]


def test_many_errors_are_counted(decode: Decode, tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"\0" + (bytes(18 - 4) + b"\0\1" + bytes(7)) * 200)
    ran = decode(tmp_path / "data", "--as", "data")
    assert (ran.code, len(ran.err)) == (1, 52)
    assert ran.err[-1] == "rollup-node: 149 more like this [CB9.2]"


def test_files_that_are_too_large_or_no_text(decode: Decode, tmp_path: Path, hildr: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(1_000_001))
    (tmp_path / "no text").write_text("0xhello")
    ran = decode(tmp_path / "large", tmp_path / "no text", "--as", "blob")
    assert ran.code == 1
    assert ran.err == [
        f"rollup-node: {tmp_path}/large: offset 1000000: longer than 1000000 bytes, the limit for such a file",
        f"rollup-node: {tmp_path}/no text: offset 2: not hex text",
    ]
    assert decode(tmp_path / "no text", hildr, "--as", "channel").code == 0


def test_as_a_program_of_little_memory(tmp_path: Path) -> None:
    """A bomb: one item of 99 MB in a channel of 96 KB."""
    compressor = zlib.compressobj(9)
    pieces = [b"\xbb\x05\xe6\x9e\xc0\x01", *[b"\1" * 1_000_000] * 99]
    (tmp_path / "bomb").write_bytes(b"".join(map(compressor.compress, pieces)) + compressor.flush())
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (700 << 20, 700 << 20));"
        "from rollup_node.node.cli import main; code = main(sys.argv[1:]);"
        "print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]); sys.exit(code)"
    )
    command = [sys.executable, "-c", limited, "decode", str(tmp_path / "bomb"), "--as", "channel"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "decompressed offset 0: " in done.stderr and "[BE4]" in done.stderr
    assert int(done.stdout) < 300_000


def test_output_without_a_reader(hildr: Path) -> None:
    command = f'"{sys.executable}" -m rollup_node decode {" ".join([str(hildr)] * 500)} --as channel --full'
    shell = ["sh", "-c", f"{command} | head -c 10"]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
