"""The arena: large byte strings pass from one producer to its readers by shared memory, described by a short message.

Memory is cut into uniform chunks, chained for longer values. Only the producer writes chunks and their headers. Each
reader has one acknowledgement cell per chunk, which only it writes and which only rises. The generation of a chunk is
`incarnation << 40 | counter`: it is zero while the chunk is written, and readers check it before and after they copy.
So a death at any instruction leaves descriptors that are valid or void, never wrong. A void descriptor is a lost
message. A full arena is no error: the payload then travels inline."""

from typing import Annotated

import msgspec

from rollup_node.ipc.shared_memory.memfd import SharedMemory

GENERATION_SHIFT = 40
CHUNK_BYTES = 132 * 1024
_HEADER_WORDS = 2
_PAGE = 4096

_Word = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Descriptor(msgspec.Struct, frozen=True, array_like=True):
    """Where a value lies: its `length` in bytes and its (chunk, generation) pairs in order."""

    length: _Word
    chunks: Annotated[tuple[tuple[_Word, _Word], ...], msgspec.Meta(min_length=1)]


class Arena:
    """The outgoing large values of one process, for the processes in slots 0 to `readers - 1` of the process table.

    `chunks` times `chunk_bytes` bound what is outstanding. Created by the supervisor before its first fork; `fd` is the
    descriptor that children keep."""

    def __init__(self, readers: int, *, chunks: int = 64, chunk_bytes: int = CHUNK_BYTES) -> None:
        self.readers, self.chunks, self.chunk_bytes = readers, chunks, chunk_bytes
        self._stride = -(-(_HEADER_WORDS * 8 + chunk_bytes) // _PAGE) * _PAGE
        self._acks = chunks * self._stride // 8
        self._memory = SharedMemory("arena", chunks * self._stride + 8 * chunks * readers)
        self._words, self._octets = self._memory.words, self._memory.octets
        self._incarnation, self._counter = 0, 0
        self._free: list[int] = []
        self._busy: dict[int, tuple[int, int]] = {}

    @property
    def fd(self) -> int:
        return self._memory.fd

    @property
    def capacity(self) -> int:
        """The longest value, in bytes."""
        return self.chunks * self.chunk_bytes

    @property
    def free(self) -> int:
        """The number of chunks that the producer may write now."""
        return len(self._free)

    def close(self) -> None:
        """Unmap the arena in this process."""
        self._words.release()
        self._octets.release()
        self._memory.close()

    # Called by the producer.

    def take_over(self, incarnation: int) -> None:
        """Make the calling process the producer and voids every descriptor of earlier incarnations.

        The first has none before it: it leaves the memory as the kernel gave it, which takes no page yet."""
        self._incarnation, self._counter = incarnation, 0
        if incarnation > 1:
            for chunk in range(self.chunks):
                self._words[chunk * self._stride // 8] = 0
        self._busy = {}
        self._free = list(range(self.chunks - 1, -1, -1))

    def put(self, data: bytes, reader: int) -> Descriptor | None:
        """Store `data` until `reader` has acknowledged it or died; None when there is no room for it."""
        needed = max(1, -(-len(data) // self.chunk_bytes))
        self.reap()
        if len(self._free) < needed:
            return None
        view = memoryview(data)
        pieces = (view[at : at + self.chunk_bytes] for at in range(0, needed * self.chunk_bytes, self.chunk_bytes))
        return Descriptor(len(data), tuple(self._write(piece, reader) for piece in pieces))

    def _write(self, piece: memoryview, reader: int) -> tuple[int, int]:
        chunk = self._free.pop()
        self._counter += 1
        generation = self._incarnation << GENERATION_SHIFT | self._counter
        word = chunk * self._stride // 8
        start = (word + _HEADER_WORDS) * 8
        self._words[word] = 0
        self._octets[start : start + len(piece)] = piece
        self._words[word + 1] = len(piece)
        self._words[word] = generation
        self._busy[chunk] = (generation, reader)
        return chunk, generation

    def reap(self) -> None:
        """Free the chunks that their readers have acknowledged, so that little data touches little memory."""
        for chunk, (generation, reader) in list(self._busy.items()):
            if self._words[self._ack_word(reader, chunk)] >= generation:
                self._release(chunk)

    def withdraw(self, descriptor: Descriptor) -> None:
        """Free the chunks of a value that could not be sent."""
        for chunk, generation in descriptor.chunks:
            if chunk in self._busy and self._busy[chunk][0] == generation:
                self._release(chunk)

    def reader_died(self, reader: int) -> None:
        """Free the chunks that `reader` still held; called when the liveness table shows its successor."""
        for chunk in [chunk for chunk, (_, holder) in self._busy.items() if holder == reader]:
            self._release(chunk)

    def _release(self, chunk: int) -> None:
        del self._busy[chunk]
        self._free.append(chunk)

    # Called by readers. Descriptors come from other processes: nothing in them is trusted.

    def get(self, descriptor: Descriptor) -> bytes | None:
        """Return a copy of the value; None when the producer has died or has freed the chunks."""
        if not 0 <= descriptor.length <= len(descriptor.chunks) * self.chunk_bytes <= self.capacity:
            return None
        pieces: list[memoryview] = []
        for chunk, generation in descriptor.chunks:
            piece = self._piece(chunk, generation)
            if piece is None:
                return None
            pieces.append(piece)
        value = b"".join(pieces)
        whole = all(self._words[chunk * self._stride // 8] == generation for chunk, generation in descriptor.chunks)
        return value if whole and len(value) == descriptor.length else None

    def _piece(self, chunk: int, generation: int) -> memoryview | None:
        """Return a view of the chunk's content; the caller checks the generation again after it has copied it."""
        if not 0 <= chunk < self.chunks or generation <= 0:
            return None
        word = chunk * self._stride // 8
        start = (word + _HEADER_WORDS) * 8
        if self._words[word] != generation:
            return None
        length = self._words[word + 1]
        if length > self.chunk_bytes:
            return None
        return self._octets[start : start + length]

    def ack(self, reader: int, descriptor: Descriptor) -> None:
        """`reader` needs the value no more. A repeated or void descriptor has no effect."""
        for chunk, generation in descriptor.chunks:
            if 0 <= chunk < self.chunks:
                word = self._ack_word(reader, chunk)
                if self._words[word] < generation == self._words[chunk * self._stride // 8]:
                    self._words[word] = generation

    def _ack_word(self, reader: int, chunk: int) -> int:
        if not 0 <= reader < self.readers:
            raise IndexError(f"the arena has readers 0 to {self.readers - 1}, not {reader}")
        return self._acks + reader * self.chunks + chunk
