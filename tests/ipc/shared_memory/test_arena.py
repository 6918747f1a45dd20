"""The arena: values arrive whole or not at all, and chunks are freed."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollup_node.ipc.shared_memory.arena import Arena, Descriptor

CHUNK = 4096


@pytest.fixture
def arena() -> Iterator[Arena]:
    arena = Arena(3, chunks=4, chunk_bytes=CHUNK)
    arena.take_over(1)
    yield arena
    arena.close()


def stored(arena: Arena, data: bytes, reader: int) -> Descriptor:
    """Put a value that fits."""
    descriptor = arena.put(data, reader)
    assert descriptor is not None
    return descriptor


@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK])
def test_a_value_survives_the_round_trip(arena: Arena, length: int) -> None:
    data = bytes(number % 251 for number in range(length))
    assert arena.get(stored(arena, data, 1)) == data


def test_a_withdrawn_value_is_freed_at_once(arena: Arena) -> None:
    stored(arena, bytes(CHUNK), 2)
    second = stored(arena, bytes(CHUNK), 1)
    arena.withdraw(second)
    assert arena.free == 3
    third = stored(arena, bytes(CHUNK), 2)
    arena.withdraw(second)
    assert arena.free == 2 and arena.get(third) is not None, "an old descriptor withdraws nothing"


def test_a_producer_that_dies_in_mid_write_leaves_a_void_chunk(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = stored(arena, b"a" * CHUNK, 1)
    arena.ack(1, descriptor)

    class Killed(Exception):
        pass

    class Octets:
        def __setitem__(self, where: slice, piece: memoryview) -> None:
            octets[where.start : where.start + 100] = piece[:100]
            raise Killed

    octets = arena._octets
    monkeypatch.setattr(arena, "_octets", Octets())
    arena.reap()
    with pytest.raises(Killed):
        arena.put(b"b" * CHUNK, 1)
    monkeypatch.undo()
    assert arena.get(descriptor) is None
    arena.take_over(2)
    assert arena.get(stored(arena, b"c", 1)) == b"c"


def test_a_chunk_that_is_taken_over_during_the_read_is_void(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor, piece = stored(arena, b"a", 1), arena._piece

    def read(chunk: int, generation: int) -> memoryview | None:
        result = piece(chunk, generation)
        arena.take_over(2)
        return result

    monkeypatch.setattr(arena, "_piece", read)
    assert arena.get(descriptor) is None


words = st.one_of(st.integers(0, 8), st.integers(0, (1 << 63) - 1))


@settings(max_examples=200)
@given(length=words, chunks=st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_a_hostile_descriptor_reads_and_frees_nothing(length: int, chunks: list[tuple[int, int]]) -> None:
    arena = Arena(2, chunks=4, chunk_bytes=CHUNK)
    try:
        arena.take_over(3)
        held = stored(arena, bytes(2 * CHUNK), 1)
        hostile = Descriptor(length, tuple(chunks))
        assert arena.get(hostile) is None
        arena.ack(1, hostile)
        arena.reap()
        assert arena.free == 2 and arena.get(held) is not None
    finally:
        arena.close()


def test_a_wrong_length_is_void(arena: Arena) -> None:
    descriptor = stored(arena, b"four", 1)
    assert arena.get(Descriptor(3, descriptor.chunks)) is None
    assert arena.get(Descriptor(5, descriptor.chunks)) is None


def test_readers_outside_are_rejected(arena: Arena) -> None:
    with pytest.raises(IndexError, match="readers 0 to 2"):
        arena.ack(3, stored(arena, b"x", 1))


class ArenaHistory(RuleBasedStateMachine):
    """Any order of puts, reads, acknowledgements and deaths: a read gives the value put, or nothing once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(2, chunks=5, chunk_bytes=CHUNK)
        self.incarnation = 1
        self.arena.take_over(1)
        self.sent: list[tuple[Descriptor, bytes, set[int]]] = []
        self.count = 0

    @rule(length=st.integers(0, 3 * CHUNK), reader=st.integers(0, 1))
    def put(self, length: int, reader: int) -> None:
        self.count += 1
        data = (self.count.to_bytes(2, "big") * CHUNK * 2)[:length]
        needed = max(1, -(-length // CHUNK))
        self.arena.reap()
        room = self.arena.free
        descriptor = self.arena.put(data, reader)
        assert (descriptor is None) == (needed > room)
        if descriptor is not None:
            self.sent.append((descriptor, data, {reader}))

    @precondition(lambda self: self.sent)
    @rule(index=st.integers(0, 50), reader=st.integers(0, 1), ack=st.booleans())
    def read(self, index: int, reader: int, ack: bool) -> None:
        descriptor, data, readers_left = self.sent[index % len(self.sent)]
        value = self.arena.get(descriptor)
        assert value == data if readers_left else value in (None, data)
        if ack:
            self.arena.ack(reader, descriptor)
            readers_left.discard(reader)

    @rule(reader=st.integers(0, 1))
    def reader_dies(self, reader: int) -> None:
        self.arena.reader_died(reader)
        for _, _, readers_left in self.sent:
            readers_left.discard(reader)

    @rule()
    def producer_dies(self) -> None:
        self.incarnation += 1
        self.arena.take_over(self.incarnation)
        assert all(self.arena.get(descriptor) is None for descriptor, _, _ in self.sent)
        self.sent.clear()

    @invariant()
    def nothing_leaks(self) -> None:
        self.arena.reap()
        held = sum(len(descriptor.chunks) for descriptor, _, readers_left in self.sent if readers_left)
        assert self.arena.free == 5 - held

    def teardown(self) -> None:
        self.arena.close()


ArenaHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestArenaHistory = ArenaHistory.TestCase
