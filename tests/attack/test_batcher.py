"""The holder of the batcher key posts decompression bombs and floods of what is dropped.

Meanwhile every process stays within the bounds of docs/security.md, none is restarted, and the node derives and
answers honest clients."""

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.rlp import encode_bytes, list_header
from rollup_node.stages.protocol.types import InboxTransaction, L1Block
from rollup_node.tools.batcher.channels import batcher_data, frames
from rollup_node.tools.bench import drops, synthetic_chain
from rollup_node.tools.fuzz import bombs
from tests.conformance.kit.span_fields import Tx
from tests.support.processes.attacked_node import AttackedNode
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.partial_node import write_l1_blocks, write_rollup
from tests.support.timing.slowness import within

MAX_RSS = {"derivation": 300_000_000, "compute": 300_000_000, "rpc": 200_000_000}
"""Bytes; the bounds of docs/security.md."""
LARGEST = 99_000_000
BLOCKS_PER_SPAN = synthetic_chain.L1_BLOCK_TIME // synthetic_chain.BLOCK_TIME
"""The honest batcher posts a span in every L1 block, of as many L2 blocks as have an L1 origin in common."""
SECONDS = 55
USER = Tx(2, (b"\x05", b"\x01", b"\x09", b"", [])).full()

Posted = list[list[bytes]]
"""The data of the batcher's transactions in one L1 block after the other."""
Attack = Callable[[int], Posted]
"""What is posted when the next L2 block has this number."""


def _long_spans(relative_time: int) -> Posted:
    """Four channels of eight spans of ten million empty blocks, 17 kB each; no two are the same."""
    spans = [piece for _ in range(8) for piece in bombs.long_span(LARGEST, relative_time)]
    return _in_channels([bombs.brotli([*spans, b"\x80" * number]) for number in range(4)])


def _wide_counts(number: int) -> Posted:
    """Return a span of 3 million blocks whose transaction counts are zeros of ten bytes each."""
    count = LARGEST // 33
    head = b"\x01" + bombs.uvarint(100_000) + b"\x05" + b"p" * 20 + b"o" * 20 + bombs.uvarint(count)
    return _in_channels([bombs.brotli(bombs.string([head, bytes((count + 7) // 8)], b"\x80" * 9 + b"\0", count))])


def _one_byte_transactions(number: int) -> Posted:
    """Return a singular batch that is valid as the next block as far as derivation knows."""
    return _in_channels([bombs.brotli(_singular(number, LARGEST, bombs.repeated(b"\x01", LARGEST)))])


def _huge_transaction(number: int) -> Posted:
    """Return a valid singular batch with one transaction of almost the size of a channel."""
    head = bombs.string_header(LARGEST)
    batch = _singular(number, len(head) + LARGEST, [head, *bombs.repeated(b"\x02", LARGEST)])
    return _in_channels([bombs.brotli(batch)])


def _singular(number: int, size: int, transactions: Iterable[bytes]) -> Iterator[bytes]:
    block = synthetic_chain.l2_ref(number)
    fields = b"".join(map(encode_bytes, (block.parent_hash, block.l1_origin.number.to_bytes(4, "big"))))
    fields += encode_bytes(block.l1_origin.hash) + encode_bytes(block.timestamp.to_bytes(4, "big"))
    fields += list_header(size)
    batch = b"\0" + list_header(len(fields) + size) + fields
    yield bombs.string_header(len(batch) + size) + batch
    yield from transactions


def _in_channels(bodies: list[bytes]) -> Posted:
    """Channels with these bodies, in one L1 block."""
    pieces = (frames(b"bomb" + number.to_bytes(12, "big"), body, 120_000) for number, body in enumerate(bodies))
    return [[batcher_data([piece]) for channel in pieces for piece in channel]]


def _frames_without_data(number: int) -> Posted:
    """Each of 8 L1 blocks has 2.8 MB of empty frames of two channels of its own: 30 MB of memory each."""
    frames_of_any = drops.items([drops.empty_frame(drops.CHANNEL, at) for at in range(60_000)])
    channels = [
        [item.replace(drops.CHANNEL, b"empty" + channel.to_bytes(11, "big")) for item in frames_of_any]
        for channel in range(16)
    ]
    return [one + other for one, other in zip(channels[::2], channels[1::2], strict=True)]


ATTACKS: dict[str, Attack] = {
    "long_spans": lambda number: _long_spans(0),  # without the block before genesis they are undecided
    "wide_counts": _wide_counts,
    "full_span": lambda number: _in_channels([bombs.brotli(bombs.full_span(LARGEST))]),
    "small_batches": lambda number: _in_channels([bombs.brotli(bombs.small_batches(4_000_000))]),
    "refused_batches": lambda number: [drops.refused_batches(30_000)],
    "one_byte_transactions": _one_byte_transactions,
    "huge_transaction": _huge_transaction,
    "unknown_channel": lambda number: [drops.unknown_channel(60_000)],
    "abandoned_channels": lambda number: [drops.abandoned_channels(60_000)],  # before Holocene all stay open
    "repeated_frames": lambda number: [drops.repeated_frames(60_000)],
    "frames_without_data": _frames_without_data,
    "long_spans_ahead": lambda number: _long_spans(100_000),  # before Holocene they are queued until their time comes
}
BEFORE_HOLOCENE = ["abandoned_channels", "one_byte_transactions", "long_spans_ahead"]
"""Before Holocene the bombs go through the batch queue, in which spans far ahead stay."""

LONGEST = 60
"""L1 blocks of the honest chain."""


class _AttackedChain:
    """The honest chain with attacks in it, one after the other.

    L1 block n after genesis has the span that ends with L2 block (n - 1) * BLOCKS_PER_SPAN; what is posted stands
    before it."""

    def __init__(self) -> None:
        self._honest = synthetic_chain.make(LONGEST * BLOCKS_PER_SPAN, [USER] * 40, BLOCKS_PER_SPAN)
        self._length = 0

    @property
    def safe(self) -> int:
        """The L2 block that is safe when the node has derived from the last L1 block."""
        return (self._length - 2) * BLOCKS_PER_SPAN

    def extend(self, posted: Posted) -> list[L1Block]:
        """Return the next L1 blocks, with what is posted."""
        first = self._honest.first_l1 + self._length
        self._length += len(posted)
        return [_with_data(self._honest.l1_block(number), data) for number, data in enumerate(posted, first)]


def _with_data(block: L1Block, data: list[bytes]) -> L1Block:
    """Return an L1 block with more of the batcher's transactions before its own."""
    inbox = tuple(InboxTransaction(2, synthetic_chain.BATCHER, item, ()) for item in data)
    return msgspec.structs.replace(block, inbox=inbox + block.inbox)


class _Node(AttackedNode):
    """A running node of partial_node.py."""

    def __init__(self, leftovers: Leftovers, folder: Path, rollup: RollupConfig) -> None:
        self._folder, self._chain = folder, _AttackedChain()
        write_rollup(folder, rollup)
        write_l1_blocks(folder, self._chain.extend([[], []]))
        super().__init__(leftovers, "tests.support.processes.partial_node", folder / "run", str(folder))

    def check_bounds(self, name: str) -> None:
        """Show the node the L1 blocks of an attack, and has honest clients ask until all is derived from them."""
        with self.within_bounds(name, MAX_RSS) as honest:
            write_l1_blocks(self._folder, self._chain.extend(ATTACKS[name](self._chain.safe + 1)))
            begin = time.monotonic()
            while (safe := honest.ask()["safe_l2"]["number"]) < self._chain.safe:
                assert self.running, f"{name}: the node ended\n{self.out[-3000:]}"
                assert within(time.monotonic() - begin, SECONDS), (
                    f"{name}: block {safe} is safe, not {self._chain.safe}"
                )
                time.sleep(0.1)


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, module_leftovers: Leftovers) -> Iterator[_Node]:
    """Yield a node of a chain without the forks from the one named on, which withstands one attack after the other."""
    folder = module_leftovers.folder / str(request.param)
    folder.mkdir()
    with _Node(module_leftovers, folder, synthetic_chain.config(request.param)) as running:
        yield running
        running.stop()


@pytest.mark.parametrize("node", [None], indirect=True, ids=["all_forks"])
@pytest.mark.parametrize("attack", [name for name in ATTACKS if name != "long_spans_ahead"])
def test_an_attack_by_the_batcher(node: _Node, attack: str) -> None:
    node.check_bounds(attack)


@pytest.mark.parametrize("node", ["holocene"], indirect=True, ids=["before_holocene"])
@pytest.mark.parametrize("attack", BEFORE_HOLOCENE)
def test_an_attack_by_the_batcher_before_holocene(node: _Node, attack: str) -> None:
    node.check_bounds(attack)
