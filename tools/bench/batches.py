"""Compares `rollup-node batches` over recorded L1 blocks with the native calls of the same work alone.

The work is JSON, keccak, KZG, signature recovery and decompression. Both include the load of the KZG setup, which
compute does while others begin to work; other start-up is not measured."""

import argparse
import json
import re
import subprocess
import sys
import time
import urllib.request
import zlib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import brotli
import orjson

from rollup_node.node.setup.networks import find_network
from rollup_node.stages.blobs import kzg
from rollup_node.stages.blobs import tasks as blob_tasks
from rollup_node.stages.blobs.beacon_api import OfferedBlob
from rollup_node.stages.derivation.codec import channel_body
from rollup_node.stages.l1 import tasks as l1_tasks
from rollup_node.stages.l1.filter import filter_of_rollup
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.types import BlobRef, L1Block
from rollup_node.tools.bench.measure import Figure, Recorded, recording, repeat, seconds_of, show
from rollup_node.tools.inspect.batch_summary import BatchSummary
from rollup_node.tools.inspect.listing_stage import BatchListing
from rollup_node.tools.recorded.recording import Recording

FIRST, LAST = 6_582_895, 6_582_952
BOUND = 3.0
STARTED = re.compile(r"t=(\S+) .*msg=\"process started\" name=derivation ")
ENDED = re.compile(r"t=(\S+) .*msg=\"process ended\" name=derivation ")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when the bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the recording (op_sepolia_replay of the shared data)")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=1, help="runs that are not counted")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--first", type=int, default=FIRST, help="the first L1 block, with which a channel begins")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    # The node's compute process never computes so many commitments here that it loads the setup of ckzg.
    kzg.setup_pays = lambda: False
    expected = json.loads((args.folder / "expected.json").read_text())
    spans = sum(span["inclusion"] >= args.first for span in expected["spans"])
    command = [sys.executable, "-m", "rollup_node.tools.recorded", str(args.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        try:
            calls = native_calls(url, Recording.load(args.folder), args.first)
            native = repeat(args.runs, args.warm_up, lambda: seconds_of(calls))
            node = repeat(args.runs, args.warm_up, lambda: command_seconds(url, args.workers, args.first, spans))
        finally:
            server.terminate()
    ratios = tuple(ours / alone for ours, alone in zip(node, native, strict=True))
    return show(
        f"batches over L1 {args.first} to {LAST}, {args.workers} worker(s), with the load of the KZG setup",
        [
            Figure(f"native calls alone ({len(calls)})", "s", native),
            Figure("rollup-node batches", "s", node),
            Figure("ratio", "x", ratios, BOUND),
        ],
    )


def command_seconds(url: str, workers: int, first: int, spans: int) -> float:
    """Seconds from the start of the listing process to its end, by the node's log.

    Raises AssertionError unless it has listed so many batches."""
    options = ["--l1", url, "--l1.beacon", url, "--network", "op-sepolia", "--workers", str(workers)]
    arguments = ["batches", *options, "--from-l1", str(first), "--to-l1", str(LAST), "--json", "--log.level", "info"]
    done = subprocess.run(
        [sys.executable, "-m", "rollup_node", *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    assert len(done.stdout.splitlines()) == spans, done.stdout  # fewer would be faster
    started, ended = STARTED.search(done.stderr), ENDED.search(done.stderr)
    assert started is not None and ended is not None, done.stderr
    return (datetime.fromisoformat(ended[1]) - datetime.fromisoformat(started[1])).total_seconds()


def native_calls(url: str, recorded: Recording, first: int) -> Recorded:
    """Return the calls into native code of the listing, recorded while this process lists once."""
    config = find_network("op-sepolia").config
    bodies = {number: _fetch(url, "eth_getBlockByNumber", hex(number), True) for number in range(first, LAST + 1)}
    functions = (
        keccak256,
        orjson.loads,
        kzg.blob_to_commitment,
        kzg.verify_proofs,
        kzg.verify_commitments,
    )
    with recording(*functions) as calls:
        blocks = [_verified(config, url, number, body) for number, body in bodies.items()]
        _list(config, blocks, recorded)
    calls += [(orjson.loads, (body,), {}) for body in bodies.values()]
    load: Recorded = [(kzg.lagrange_point.__wrapped__, (index,), {}) for index in range(kzg.ELEMENTS)]
    return [*load, *calls, *_decompressions(config, blocks, recorded)]


def _fetch(url: str, method: str, *params: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content


def _verified(config: RollupConfig, url: str, number: int, body: bytes) -> L1Block:
    rules = filter_of_rollup(config)
    result = l1_tasks.run(l1_tasks.VerifyBlock(number, body, False, (rules,)))
    if isinstance(result, l1_tasks.NeedsReceipts):
        receipts = _fetch(url, "eth_getBlockReceipts", hex(number))
        result = l1_tasks.run(l1_tasks.VerifyReceipts(result.block, receipts, (rules,)))
    assert isinstance(result, l1_tasks.Verified), result
    return result.blocks[0]


def _contents(recorded: Recording, wanted: tuple[BlobRef, ...]) -> tuple[Any, ...]:
    offered = tuple(OfferedBlob(recorded.blobs[ref.hash][0], None, None) for ref in wanted)
    result = {
        content.hash: content
        for content in blob_tasks.run(blob_tasks.VerifyBlobs(tuple(ref.hash for ref in wanted), offered)).contents
    }
    return tuple(result[ref.hash] for ref in wanted)


def _list(config: RollupConfig, blocks: Sequence[L1Block], recorded: Recording) -> list[BatchSummary]:
    listing = BatchListing(config, blocks[0])
    result: list[BatchSummary] = []
    for block in blocks:
        wanted = listing.open(block)
        contents = _contents(recorded, wanted) if wanted else ()
        result += [batch for batch in listing.batches(contents) if isinstance(batch, BatchSummary)]
    return result


def _decompressions(config: RollupConfig, blocks: Sequence[L1Block], recorded: Recording) -> Recorded:
    """One-shot decompression of each listed channel by the native library."""
    with recording(channel_body.open_body) as opened:
        _list(config, blocks, recorded)
    return [(decompress, arguments[:1], {}) for _, arguments, _ in opened]


def decompress(body: bytes) -> bytes:
    """Return the decompressed channel body, also of a stream without its end mark."""
    if body[0] == 1:
        return bytes(brotli.decompress(body[1:]))
    return zlib.decompressobj().decompress(body)


if __name__ == "__main__":
    started = time.monotonic()
    code = main()
    print(f"  took {time.monotonic() - started:.0f} s")
    sys.exit(code)
