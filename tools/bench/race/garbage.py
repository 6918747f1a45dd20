"""What else a batch inbox gets.

Data of the batcher and of others that derivation drops, by every rule that a few bytes can break. The chain is the same
with it and without it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from random import Random
from typing import Any

import msgspec

from rollup_node.stages.protocol.transactions import DYNAMIC_FEE, Transaction, signing_hash
from rollup_node.stages.protocol.types import Address
from rollup_node.tools.batcher.batches import BatchBlock, singular_batch
from rollup_node.tools.batcher.channels import Compression, Frame, batcher_data, channel_body, frames
from rollup_node.tools.batcher.driver import Key
from rollup_node.tools.bench.race.l1_blocks import BASE_FEE, BATCHER, Included

STRANGER = Key(b"\x07" * 32)
FRAME_BYTES = 400
SECONDS_AHEAD = 1200
"""By how much the time of a batch from the future is too late."""

_UNKNOWN_BATCH_TYPE = b"\x07"


class Garbage:
    """Makes the garbage of one L1 block after the other, of each kind in turn.

    `spans` are the encoded batches of the last channel, `pending` the next L2 block that has no batch yet."""

    def __init__(self, inbox: Address, other_parents: bool = True) -> None:
        self._inbox = inbox
        kinds = [
            self._unknown_version,
            self._truncated_frame,
            self._frame_without_its_first,
            self._unfinished_channel,
            self._undecodable_channel,
            self._unknown_batch_type,
            self._batches_again,
            *([self._batch_of_another_parent] if other_parents else []),
            self._batch_ahead,
            self._copy_by_a_stranger,
        ]
        self._kinds = cycle(kinds)
        self.spans: Sequence[bytes] = ()
        self.pending: BatchBlock | None = None

    def transactions(self, number: int, count: int, nonce: int) -> Iterator[Included]:
        """So many transactions in the L1 block of that number; `nonce` is that of the batcher's first."""
        random = Random(f"garbage {number}")
        for index in range(count):
            kind = next(self._kinds)
            key = STRANGER if kind == self._copy_by_a_stranger else BATCHER
            yield _signed(key, self._inbox, nonce + index, kind(random))

    # --- kinds -----------------------------------------------------------------------------------------------------

    def _unknown_version(self, random: Random) -> bytes:
        return b"\x02" + random.randbytes(50)

    def _truncated_frame(self, random: Random) -> bytes:
        return batcher_data(_channel(random, random.randbytes(60)))[:-3]

    def _frame_without_its_first(self, random: Random) -> bytes:
        return batcher_data([Frame(random.randbytes(16), 3, random.randbytes(40), False)])

    def _unfinished_channel(self, random: Random) -> bytes:
        return batcher_data(_channel(random, random.randbytes(2 * FRAME_BYTES))[:1])

    def _undecodable_channel(self, random: Random) -> bytes:
        return batcher_data(_channel(random, b"\x01" + random.randbytes(80)))

    def _unknown_batch_type(self, random: Random) -> bytes:
        return _batches(random, [_UNKNOWN_BATCH_TYPE + random.randbytes(30)])

    def _batches_again(self, random: Random) -> bytes:
        return _batches(random, self.spans[:1])

    def _batch_of_another_parent(self, random: Random) -> bytes:
        return _batches(random, self._changed(parent_hash=random.randbytes(32)))

    def _batch_ahead(self, random: Random) -> bytes:
        time = 0 if self.pending is None else self.pending.timestamp + SECONDS_AHEAD
        return _batches(random, self._changed(parent_hash=random.randbytes(32), timestamp=time))

    def _copy_by_a_stranger(self, random: Random) -> bytes:
        return _batches(random, self.spans)

    def _changed(self, **fields: Any) -> list[bytes]:
        """Return the next block's batch with other fields; nothing without one."""
        return [] if self.pending is None else [singular_batch(replace(self.pending, **fields))]


def _channel(random: Random, body: bytes) -> list[Frame]:
    return frames(random.randbytes(16), body, FRAME_BYTES)


def _batches(random: Random, encoded: Sequence[bytes]) -> bytes:
    """Return the batches as a channel of one frame."""
    body = channel_body(encoded, Compression.ZLIB)
    return batcher_data(frames(random.randbytes(16), body, len(body) + FRAME_BYTES))


def _signed(key: Key, inbox: Address, nonce: int, data: bytes) -> Included:
    gas = 21_000 + 40 * len(data)
    unsigned = Transaction(DYNAMIC_FEE, 1, nonce, 10**8, BASE_FEE * 2, gas, inbox, 0, data, 0, 0, 0)
    y_parity, r, s = key.sign(signing_hash(unsigned))
    return Included(msgspec.structs.replace(unsigned, y_parity=y_parity, r=r, s=s), key.address)
