"""The holder of the batcher key posts channels that expand to streams near their limit. The derivation and compute
processes stay below the bound of docs/security.md, none of them is restarted, and the chain behind is derived."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.rlp import encode_bytes, list_header
from rollup_node.stages.protocol.types import InboxTransaction, L1Block
from rollup_node.tools.batcher.channels import batcher_data, frames
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.fuzz import bombs
from tests.conformance.kit.span_fields import Tx
from tests.support.deriving_node import Job
from tests.support.leftovers import Leftovers
from tests.support.process_memory import peak_memory

ROOT = Path(__file__).parents[2]
MAX_RSS = 300_000_000
"""Bytes; the bound of docs/security.md for derivation and compute."""
LARGEST = 99_000_000
HONEST_BLOCKS, LONG_CHAIN = 20, 240
SECONDS = 55
USER = Tx(2, (b"\x05", b"\x01", b"\x09", b"", [])).full()

Bodies = list[bytes]


def _long_spans() -> Bodies:
    """Ten channels of eight spans of ten million empty blocks, 17 kB each; no two are the same. Without the
    block before genesis they are undecided."""
    return _channels_of_long_spans(0)


def _long_spans_ahead() -> Bodies:
    """The same, of blocks far ahead: before Holocene they are queued until their time comes."""
    return _channels_of_long_spans(100_000)


def _channels_of_long_spans(relative_time: int) -> Bodies:
    spans = [piece for _ in range(8) for piece in bombs.long_span(LARGEST, relative_time)]
    return [bombs.brotli([*spans, b"\x80" * number]) for number in range(10)]


def _wide_counts() -> Bodies:
    """A span of three million blocks whose transaction counts are zeros of ten bytes each."""
    count = LARGEST // 33
    head = b"\x01" + bombs.uvarint(100_000) + b"\x05" + b"p" * 20 + b"o" * 20 + bombs.uvarint(count)
    return [bombs.brotli(bombs.string([head, bytes((count + 7) // 8)], b"\x80" * 9 + b"\0", count))]


def _full_span() -> Bodies:
    """A span of as many transactions as fit."""
    return [bombs.brotli(bombs.full_span(LARGEST))]


def _small_batches() -> Bodies:
    """Very many singular batches without transactions."""
    return [bombs.brotli(bombs.small_batches(4_000_000))]


def _one_byte_transactions() -> Bodies:
    return [_next_block(b"\x01", LARGEST)]


def _two_byte_transactions() -> Bodies:
    return [_next_block(b"\x82ab", LARGEST // 6)]


def _empty_transactions() -> Bodies:
    return [_next_block(b"\x80", LARGEST)]


def _next_block(transaction: bytes, count: int) -> bytes:
    """A singular batch that is valid as block 1 as far as derivation knows."""
    return bombs.brotli(_singular(len(transaction) * count, bombs.repeated(transaction, count)))


def _huge_transaction() -> Bodies:
    """A valid singular batch with one transaction of almost the size of a channel."""
    head = bombs.string_header(LARGEST)
    return [bombs.brotli(_singular(len(head) + LARGEST, [head, *bombs.repeated(b"\x02", LARGEST)]))]


def _singular(size: int, transactions: Iterable[bytes]) -> Iterator[bytes]:
    block = synthetic_chain.l2_ref(1)
    fields = b"".join(map(encode_bytes, (block.parent_hash, block.l1_origin.number.to_bytes(4, "big"))))
    fields += encode_bytes(block.l1_origin.hash) + encode_bytes(block.timestamp.to_bytes(4, "big"))
    fields += list_header(size)
    batch = b"\0" + list_header(len(fields) + size) + fields
    yield bombs.string_header(len(batch) + size) + batch
    yield from transactions


def _blocks(bodies: Bodies) -> tuple[L1Block, ...]:
    """The L1 chain: the bodies in its second block, the honest chain behind them."""
    chain = synthetic_chain.make(HONEST_BLOCKS, [USER] * 40)
    data = [
        batcher_data([piece])
        for number, body in enumerate(bodies)
        for piece in frames(b"bomb" + number.to_bytes(12, "big"), body, 120_000)
    ]
    return tuple(_with_data(chain, number, data if number == chain.first_l1 + 1 else []) for number in _numbers(chain))


def _numbers(chain: synthetic_chain.SyntheticChain) -> range:
    return range(chain.first_l1, chain.last_l1 + 1)


def _with_data(chain: synthetic_chain.SyntheticChain, number: int, data: list[bytes]) -> L1Block:
    """An L1 block with more of the batcher's transactions before its own."""
    block = chain.l1_block(number)
    inbox = tuple(InboxTransaction(2, synthetic_chain.BATCHER, each, ()) for each in data)
    return msgspec.structs.replace(block, inbox=inbox + block.inbox)


class _Node:
    """A running node of deriving_node.py."""

    def __init__(self, folder: Path, program: subprocess.Popen[bytes]) -> None:
        self._folder, self._program = folder, program

    def pids(self) -> dict[str, tuple[int, int]]:
        """Pid and incarnation of the processes under attack."""
        entries = json.loads((self._folder / "run" / "processes.json").read_text())
        watched = ("derivation", "compute")
        return {entry["role"]: (entry["pid"], entry["incarnation"]) for entry in entries if entry["role"] in watched}

    def wait_for_safe(self, number: int, seconds: float) -> None:
        """Waits until the engine process has taken block `number`."""
        deadline = time.monotonic() + seconds
        while not self._has_safe(number):
            assert self._program.poll() is None, "the node ended"
            assert time.monotonic() < deadline, f"block {number} is not derived; {self.peaks()}"
            time.sleep(0.05)

    def _has_safe(self, number: int) -> bool:
        try:
            return int((self._folder / "safe").read_text()) >= number
        except FileNotFoundError:
            return False

    def peaks(self) -> dict[str, int]:
        """The most memory that each process under attack has held, in bytes."""
        return {role: peak_memory(pid) for role, (pid, _) in self.pids().items()}


def _rollup(before: str | None) -> RollupConfig:
    """The synthetic chain's config, with the forks before the one named."""
    config = synthetic_chain.config()
    names = FORK_NAMES[1 : FORK_NAMES.index(before)] if before else tuple(config.fork_times)
    return msgspec.structs.replace(config, fork_times=dict.fromkeys(names, 0))


KINDS = (
    _long_spans,
    _wide_counts,
    _full_span,
    _small_batches,
    _one_byte_transactions,
    _two_byte_transactions,
    _empty_transactions,
    _huge_transaction,
)
QUEUED = (_long_spans_ahead, _full_span, _one_byte_transactions, _huge_transaction)
"""Before Holocene a batch of each kind goes through the batch queue."""


@pytest.mark.parametrize(
    ("kind", "before"),
    [*((kind, None) for kind in KINDS), *((kind, "holocene") for kind in QUEUED)],
    ids=[kind.__name__[1:] for kind in KINDS] + [f"{kind.__name__[1:]}_before_holocene" for kind in QUEUED],
)
def test_memory_is_bounded(leftovers: Leftovers, kind: Callable[[], Bodies], before: str | None) -> None:
    peaks = _peaks(leftovers, Job(_rollup(before), _blocks(kind())), HONEST_BLOCKS)
    assert max(peaks.values()) < MAX_RSS, peaks


def test_memory_is_bounded_under_frames_without_data(leftovers: Leftovers) -> None:
    """Each of 40 L1 blocks has 1.4 MB of empty frames of a channel of its own."""
    chain = synthetic_chain.make(LONG_CHAIN, [USER] * 40)
    blocks = tuple(_with_data(chain, number, _empty_frames(number)) for number in _numbers(chain))
    peaks = _peaks(leftovers, Job(_rollup(None), blocks), LONG_CHAIN)
    assert max(peaks.values()) < MAX_RSS, peaks


def _empty_frames(number: int) -> list[bytes]:
    channel = number.to_bytes(16, "big")
    frames = [channel + at.to_bytes(2, "big") + bytes(5) for at in range(60_000)]
    return [b"\0" + b"".join(frames[at : at + 5_000]) for at in range(0, len(frames), 5_000)]


def _peaks(leftovers: Leftovers, job: Job, last: int) -> dict[str, int]:
    """The most memory that each process under attack takes until the honest chain is derived to block `last`."""
    (leftovers.folder / "job").write_bytes(msgspec.msgpack.encode(job))
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.support.deriving_node", str(leftovers.folder)],
        cwd=leftovers.folder,
        env=leftovers.environment(PYTHONPATH=str(ROOT)),
    )
    try:
        node = _Node(leftovers.folder, program)
        node.wait_for_safe(last, SECONDS)
        assert {incarnation for _, incarnation in node.pids().values()} == {1}, "no process was restarted"
        return node.peaks()
    finally:
        program.terminate()
        program.wait(20)
