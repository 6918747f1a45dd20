"""`rollup-node decode` on all recorded data, its exit codes and its errors."""

import csv
import json
import subprocess
import sys
import zlib
from collections.abc import Iterator
from gzip import open as open_gzip
from pathlib import Path
from typing import Any

import pytest

from rollup_node.node import cli
from rollup_node.node.setup.networks import find_network
from rollup_node.stages.blobs.tasks import decode_blob
from rollup_node.stages.protocol.inbox import inbox_transactions
from rollup_node.stages.protocol.keccak import keccak256

ON_OP_SEPOLIA = ("--network", "op-sepolia")


class Ran:
    """How a run ended."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.err = code, err.splitlines()
        self.batches = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        self.lines = out.splitlines()

    @property
    def counts(self) -> list[tuple[str, int, int]]:
        return [(batch["kind"], batch["blocks"], batch["transactions"]) for batch in self.batches]


@pytest.fixture
def decode(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command in this process."""

    def run(*words: object, as_json: bool = True) -> Ran:
        code = cli.main(["decode", *map(str, words), *(["--json"] if as_json else [])])
        return Ran(code, *capsys.readouterr())

    return run


# --- real data -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recorded_data(shared_data: Path) -> list[bytes]:
    """Return the data of the batcher's transactions in 58 L1 blocks, call data and blobs in order."""
    config, folder = find_network("op-sepolia").config, shared_data / "op_sepolia_replay"
    result: list[bytes] = []
    with open_gzip(folder / "l1_blocks.jsonl.gz", "rt") as lines:
        for line in map(json.loads, lines):
            transactions = [bytes.fromhex(text) for text in line.get("txs", ())]
            for sent in inbox_transactions(transactions, config.batch_inbox, config.l1_chain_id):
                if sent.sender != config.genesis.system_config.batcher:
                    continue
                blobs = [(folder / f"blob_{blob.hash.hex()}.bin").read_bytes() for blob in sent.blobs]
                result += [decode_blob(blob) for blob in blobs] or [sent.data]
    return result


def test_all_26_spans(decode: Any, recorded_data: list[bytes], shared_data: Path, tmp_path: Path) -> None:
    files = [tmp_path / f"{number:03}" for number in range(len(recorded_data))]
    for number, (path, data) in enumerate(zip(files, recorded_data, strict=True)):
        path.write_bytes(data if number % 2 else b"0x" + data.hex().encode())
    ran = decode(*files, "--as", "data", *ON_OP_SEPOLIA)
    expected = json.loads((shared_data / "op_sepolia_replay" / "expected.json").read_text())
    assert (ran.code, ran.err) == (0, [])
    channel_bytes = {batch["channel"]: batch["channel_bytes"] for batch in ran.batches}
    frames = sum(map(len, recorded_data))
    assert frames - 30 * len(recorded_data) < sum(channel_bytes.values()) < frames
    assert ran.batches == [
        {
            "channel": span["channel"],
            "channel_bytes": channel_bytes[span["channel"]],
            "kind": "span",
            "first_block": span["first_l2"],
            "last_block": span["first_l2"] + span["blocks"] - 1,
            "first_timestamp": expected["genesis_l2_time"] + 2 * span["first_l2"],
            "blocks": span["blocks"],
            "transactions": span["txs"],
            "parent_check": span["parent_check"],
            "tx_hashes_sha256": span["tx_hashes_sha256"],
        }
        for span in expected["spans"]
    ]
    assert (len(ran.batches), sum(batch["blocks"] for batch in ran.batches)) == (26, 479)
    assert sum(batch["transactions"] for batch in ran.batches) == 3603


def test_a_recorded_transaction_has_its_hash(decode: Any, shared_data: Path, tmp_path: Path) -> None:
    config, folder = find_network("op-sepolia").config, shared_data / "op_sepolia_replay"
    with open_gzip(folder / "l1_blocks.jsonl.gz", "rt") as lines:
        raws = [bytes.fromhex(text) for line in map(json.loads, lines) for text in line.get("txs", ())]
    raw = next(raw for raw in raws if raw[0] == 2 and config.batch_inbox in raw)
    (tmp_path / "raw").write_text(f"0x{raw.hex()}")
    ran = decode(tmp_path / "raw", "--as", "transaction", *ON_OP_SEPOLIA)
    assert ran.code == 0
    assert {tuple(batch["l1_transactions"]) for batch in ran.batches} == {(f"0x{keccak256(raw).hex()}",)}


def test_the_blobs_in_any_order(decode: Any, shared_data: Path) -> None:
    folder = shared_data / "op_sepolia_replay"
    ran = decode(*sorted(folder.glob("blob_*.bin")), "--as", "blob", *ON_OP_SEPOLIA)
    spans = json.loads((folder / "expected.json").read_text())["spans"]
    in_blobs = [span for span in spans if span["channel"] in {batch["channel"] for batch in ran.batches}]
    assert (ran.code, ran.err, len(in_blobs)) == (0, [], 14)
    key = "tx_hashes_sha256"
    assert [batch[key] for batch in ran.batches] == [span[key] for span in in_blobs]


@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [
        ("magi_batcher_transactions.bin", "data", [("singular", 1, n) for n in (7, 2, 0, 2, 1, 2)]),
        ("magi_batcher_transactions.bin", "frames", [("singular", 1, n) for n in (7, 2, 0, 2, 1, 2)]),
        ("hildr_batches_0.bin", "channel", [("span", 84, 9)]),
        *((f"hildr_batches_{number}.bin", "channel", [("singular", 1, 20)]) for number in (1, 2, 3, 4)),
        ("kona_batch.bin", "channel", [("span", 143, 1766)]),
    ],
)
def test_channels(decode: Any, shared_data: Path, name: str, kind: str, counts: list[Any]) -> None:
    ran = decode(shared_data / "channels" / name, "--as", kind, "--chain-id", 10, "--genesis-time", 1686068903)
    assert (ran.code, ran.err, ran.counts) == (0, [], counts)


def test_six_singular_batches_of_one_channel_body(decode: Any, shared_data: Path) -> None:
    folder = shared_data / "channels"
    body = decode(folder / "hildr_batches_singular.bin", "--as", "channel")
    data = decode(folder / "magi_batcher_transactions.bin", "--as", "data")
    assert sum(batch["transactions"] for batch in body.batches) == 14
    channel = {name: data.batches[0][name] for name in ("channel", "channel_bytes")}
    assert [batch | channel for batch in body.batches] == data.batches


@pytest.mark.parametrize(
    ("name", "kind", "counts"),
    [
        ("kona_raw_batch.bin", "raw-span", ("span", 4, 39)),
        ("kona_span_batch_history.bin", "batch", ("span", 84, 9)),
        ("spanbatchoriginbits.txt", "raw-span", ("span", 256, 2233)),
    ],
)
def test_raw_spans(decode: Any, shared_data: Path, name: str, kind: str, counts: Any) -> None:
    path = shared_data / "span_batch_vectors" / name
    ran = decode(path, "--as", kind, "--chain-id", 11155420, "--genesis-time", 1691802540)
    assert (ran.code, ran.err, ran.counts) == (0, [], [counts])


def test_blobs_that_hold_no_batches(decode: Any, shared_data: Path) -> None:
    rules = ("P2", "P2", "P3", "P5", "P5", "P5", "P5", "P1")
    for number, rule in enumerate(rules, start=1):
        path = shared_data / "blobs" / f"blob{number}.txt"
        ran = decode(path, "--as", "blob")
        assert (ran.code, ran.batches) == (1, [])
        assert len(ran.err) == 1
        assert ran.err[0].startswith(f"rollup-node: {path} (data of the blob): offset ")
        assert ran.err[0].endswith(f"[{rule}]")


def test_beacon_blobs_of_another_encoding(decode: Any, shared_data: Path, tmp_path: Path) -> None:
    answer = json.loads((shared_data / "blobs" / "goerli_sidecars_7422094.json").read_text())
    for number, sidecar in enumerate(answer["data"]):
        (tmp_path / str(number)).write_text(sidecar["blob"])
    ran = decode(*sorted(tmp_path.iterdir()), "--as", "blob")
    assert ran.code == 1
    assert len(ran.err) == 5 and all("blob encoding version 22 [BL1]" in line for line in ran.err)


def test_the_blocks_of_a_real_span(decode: Any, shared_data: Path, tmp_path: Path, recorded_data: list[bytes]) -> None:
    for number, data in enumerate(recorded_data[-3:]):
        (tmp_path / str(number)).write_bytes(data)
    ran = decode(*sorted(tmp_path.iterdir()), "--as", "data", *ON_OP_SEPOLIA, "--full")
    known = json.loads((shared_data / "op_sepolia_replay" / "l2_blocks.json").read_text())
    by_number = {int(block["number"]): block for block in known}
    genesis = find_network("op-sepolia").config.genesis.l2_time
    blocks = ran.batches[-1]["l2_blocks"]
    assert [(block["timestamp"] - genesis) // 2 for block in blocks] == list(range(16491245, 16491250))
    assert [block["number"] for block in blocks] == list(range(16491245, 16491250))
    for block, number in zip(blocks, range(16491245, 16491249), strict=False):
        users = ["0x" + raw for raw in by_number[number]["txs"] if not raw.startswith("7e")]
        assert block["transactions"] == users
    assert [block["epoch"] for block in blocks] == [{"number": n} for n in (6582944, 6582944, *[6582945] * 3)]


# --- flags and errors ----------------------------------------------------------------------------------------------


@pytest.fixture
def hildr(shared_data: Path) -> Iterator[Path]:
    yield shared_data / "channels" / "hildr_batches_1.bin"


def test_text_output(decode: Any, hildr: Path) -> None:
    ran, size = decode(hildr, "--as", "channel", as_json=False), hildr.stat().st_size
    assert ran.lines == [
        f"bytes {size}  singular  time 1986837747 2032-12-16T19:22:27Z  blocks 1  transactions 20  "
        "fe6c26fe4a22605d40530d93d81be0b79b460519f68dd85829685ebbc2d7fa2f"
    ]
    full = decode(hildr, "--as", "channel", "--full", as_json=False)
    assert len(full.lines) == 22 and full.lines[1].startswith("  block of time 1986837747  epoch ")


def test_numbers_of_blocks_by_a_genesis_of_ones_own(decode: Any, shared_data: Path) -> None:
    words = (
        shared_data / "channels" / "kona_batch.bin",
        "--as",
        "channel",
        "--chain-id",
        10,
        "--genesis-time",
        1686068903,
    )
    (batch,) = decode(*words, "--genesis-block", 105235063).batches
    (of_network,) = decode(*words[:3], "--network", "op-mainnet").batches
    assert batch == of_network and (batch["first_block"], batch["last_block"]) == (121382930, 121383072)
    full = decode(*words, "--full", as_json=False).lines
    assert full[1] == "  L2 16147867  time 1718364637 2024-06-14T11:30:37Z  epoch 20089746"


def test_results_in_a_file(decode: Any, hildr: Path, tmp_path: Path) -> None:
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


def test_forks_restrict(decode: Any, shared_data: Path) -> None:
    span = shared_data / "channels" / "kona_batch.bin"
    chain = ("--chain-id", 10, "--genesis-time", 1686068903)
    assert decode(span, "--as", "channel", *chain, "--fork-time", "Delta=1718364637").code == 0
    ran = decode(span, "--as", "channel", *chain, "--fork-time", "delta=1718364638")
    assert (ran.code, ran.batches) == (1, [])
    assert ran.err == [
        f"rollup-node: {span}: decompressed offset 0: batch dropped: span batch at L1 block time 1718364637, before"
        " span batches are allowed [BE5]"
    ]
    assert decode(span, "--as", "channel", *chain, "--fork-time", "canyon=0").code == 1
    assert decode(span, "--as", "channel", *chain, "--fork-time", "delta=5", "--l1-time", 4).code == 1
    assert decode(span, "--as", "channel", "--network", "op-mainnet").code == 0
    ran = decode(span, "--as", "channel", "--network", "op-mainnet", "--fork-time", "delta=2000000000")
    assert (ran.code, ran.err[0][-5:]) == (1, "[BE5]")


def test_spans_without_the_chain_are_a_warning(decode: Any, shared_data: Path) -> None:
    ran = decode(shared_data / "channels" / "kona_batch.bin", "--as", "channel")
    assert ran.code == 0
    assert ran.err == [
        "rollup-node: warning: of span batches the transactions' hashes are those of chain id 0 (no --chain-id), times"
        " count from genesis (no --genesis-time)"
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["x"], "the following arguments are required: --as"),
        (["--as", "blob"], "the following arguments are required: FILE"),
        (["x", "--as", "blub"], "invalid choice: 'blub'"),
        (["x", "--as", "blob", "--fork-time", "fjord"], "--fork-time 'fjord' is not NAME=T"),
        (["x", "--as", "blob", "--fork-time", "fjrd=5"], "unknown fork 'fjrd'; did you mean fjord?"),
        (["x", "--as", "blob", "--network", "op-mainet"], "invalid network"),
        (["x", "--as", "blob", "--chain-id", "-1"], "'-1' is not a chain id"),
        (["x", "--as", "blob", "--chainid=5"], "unknown flag --chainid; did you mean --chain-id?"),
        (["x", "--as", "blob", "--block-time", "0"], "--block-time 0: blocks have at least one second"),
        (["x", "--as", "blob", "--out", "b.csv", "--full"], "contradict each other"),
        (["x", "--as", "blob", "--l1", "y"], "unknown flag --l1"),
        (["nowhere", "--as", "blob"], "cannot read nowhere: No such file or directory"),
    ],
)
def test_wrong_flags_are_rejected_in_one_line(decode: Any, words: list[str], text: str) -> None:
    ran = decode(*words)
    assert ran.code == 1
    assert len(ran.err) == 1 and text in ran.err[0]


def test_many_errors_are_counted(decode: Any, tmp_path: Path) -> None:
    frames = b"".join(bytes(18 - 4) + number.to_bytes(2, "big") + bytes(7) for number in (1,) * 200)
    (tmp_path / "data").write_bytes(b"\0" + frames)
    ran = decode(tmp_path / "data", "--as", "data")
    assert ran.code == 1
    assert ran.err[-1] == "rollup-node: 149 more like this [CB9.2]"
    assert len(ran.err) == 52


def test_files_that_are_too_large_or_no_text(decode: Any, tmp_path: Path, hildr: Path) -> None:
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
    command = f'"{sys.executable}" -m rollup_node.node decode {" ".join([str(hildr)] * 500)} --as channel --full'
    done = subprocess.run(
        ["sh", "-c", f"{command} | head -c 10"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
