"""The arena: large byte strings go from one producer to its readers by shared memory, described by a short message.

Uniform slots, chained for longer values. Only the producer writes slots and their headers; each reader has one
acknowledgement cell per slot that only it writes and that only rises. A slot's generation is
`incarnation << 40 | counter`: it is zero while the slot is written, and checked before and after it is copied, so
that whoever dies whenever leaves descriptors that are right or void, never wrong. A void descriptor is a lost
message; a full arena is no error, the bytes then travel inline."""

from collections.abc import Collection
from typing import Annotated

import msgspec

from rollup_node.ipc.shared_memory.memfd import SharedMemory

GENERATION_SHIFT = 40
SLOT_BYTES = 132 * 1024
_HEADER_WORDS = 2
_PAGE = 4096

_Word = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Descriptor(msgspec.Struct, frozen=True, array_like=True):
    """Where a value lies: its `length` in bytes and its (slot, generation) pairs in order."""

    length: _Word
    slots: Annotated[tuple[tuple[_Word, _Word], ...], msgspec.Meta(min_length=1)]


class Arena:
    """The outgoing large values of one row of the process table, for readers 0 to `readers - 1`.

    Made by the supervisor before its first fork; `fd` is the descriptor that children keep. A process that was not
    forked attaches with the same numbers and `fd`."""

    def __init__(self, readers: int, *, slots: int = 64, slot_bytes: int = SLOT_BYTES, fd: int | None = None) -> None:
        self.readers, self.slots, self.slot_bytes = readers, slots, slot_bytes
        self._stride = -(-(_HEADER_WORDS * 8 + slot_bytes) // _PAGE) * _PAGE
        self._acks = slots * self._stride // 8
        self._memory = SharedMemory("arena", slots * self._stride + 8 * slots * readers, fd)
        self._words, self._octets = self._memory.words, self._memory.octets
        self._incarnation, self._counter = 0, 0
        self._free: list[int] = []
        self._busy: dict[int, tuple[int, set[int]]] = {}

    @property
    def fd(self) -> int:
        return self._memory.fd

    @property
    def capacity(self) -> int:
        """The longest value, in bytes."""
        return self.slots * self.slot_bytes

    @property
    def free(self) -> int:
        """Slots that the producer may write now."""
        return len(self._free)

    def close(self) -> None:
        """Unmaps the arena in this process."""
        self._words.release()
        self._octets.release()
        self._memory.close()

    # The producer's side.

    def take_over(self, incarnation: int) -> None:
        """Makes the calling process the producer; every descriptor of earlier incarnations is void from here."""
        self._incarnation, self._counter = incarnation, 0
        for slot in range(self.slots):
            self._words[slot * self._stride // 8] = 0
        self._busy = {}
        self._free = list(range(self.slots - 1, -1, -1))

    def put(self, data: bytes, readers: Collection[int]) -> Descriptor | None:
        """Stores `data` until all `readers` have acknowledged it or died. None: no room now, or too long."""
        needed = max(1, -(-len(data) // self.slot_bytes))
        self.reap()
        if len(self._free) < needed:
            return None
        view = memoryview(data)
        pieces = (view[at : at + self.slot_bytes] for at in range(0, needed * self.slot_bytes, self.slot_bytes))
        return Descriptor(len(data), tuple(self._write(piece, set(readers)) for piece in pieces))

    def _write(self, piece: memoryview, readers: set[int]) -> tuple[int, int]:
        slot = self._free.pop()
        self._counter += 1
        generation = self._incarnation << GENERATION_SHIFT | self._counter
        word = slot * self._stride // 8
        start = (word + _HEADER_WORDS) * 8
        self._words[word] = 0
        self._octets[start : start + len(piece)] = piece
        self._words[word + 1] = len(piece)
        self._words[word] = generation
        self._busy[slot] = (generation, readers)
        return slot, generation

    def reap(self) -> None:
        """Frees the slots that all their readers have acknowledged; the last freed is the first written again, so
        that a quiet producer touches little memory."""
        for slot, (generation, readers) in list(self._busy.items()):
            readers.difference_update(
                [reader for reader in readers if self._words[self._ack_word(reader, slot)] >= generation]
            )
            if not readers:
                self._release(slot)

    def withdraw(self, descriptor: Descriptor, reader: int) -> None:
        """Gives back at once what could not be sent to `reader`."""
        for slot, generation in descriptor.slots:
            held = self._busy.get(slot)
            if held is not None and held[0] == generation:
                held[1].discard(reader)
                if not held[1]:
                    self._release(slot)

    def reader_died(self, reader: int) -> None:
        """Gives back what only `reader` still held; called when the board shows a newer incarnation of its row."""
        for _, readers in self._busy.values():
            readers.discard(reader)
        self.reap()

    def _release(self, slot: int) -> None:
        del self._busy[slot]
        self._free.append(slot)

    # The readers' side. Descriptors come from other processes: nothing in them is trusted.

    def get(self, descriptor: Descriptor) -> bytes | None:
        """A copy of the value, or None when the descriptor is void: the producer has died or was let go since."""
        if not 0 <= descriptor.length <= len(descriptor.slots) * self.slot_bytes <= self.capacity:
            return None
        pieces: list[memoryview] = []
        for slot, generation in descriptor.slots:
            piece = self._piece(slot, generation)
            if piece is None:
                return None
            pieces.append(piece)
        value = b"".join(pieces)
        whole = all(self._words[slot * self._stride // 8] == generation for slot, generation in descriptor.slots)
        return value if whole and len(value) == descriptor.length else None

    def _piece(self, slot: int, generation: int) -> memoryview | None:
        """What lies in the slot, not copied yet: the generation is to be looked at again behind the copy."""
        if not 0 <= slot < self.slots or generation <= 0:
            return None
        word = slot * self._stride // 8
        start = (word + _HEADER_WORDS) * 8
        if self._words[word] != generation:
            return None
        length = self._words[word + 1]
        if length > self.slot_bytes:
            return None
        return self._octets[start : start + length]

    def ack(self, reader: int, descriptor: Descriptor) -> None:
        """`reader` is done with the value. Acknowledging again, or what is void, does nothing."""
        for slot, generation in descriptor.slots:
            if 0 <= slot < self.slots:
                word = self._ack_word(reader, slot)
                if self._words[word] < generation == self._words[slot * self._stride // 8]:
                    self._words[word] = generation

    def _ack_word(self, reader: int, slot: int) -> int:
        if not 0 <= reader < self.readers:
            raise IndexError(f"arena has readers 0 to {self.readers - 1}, not {reader}")
        return self._acks + reader * self.slots + slot
