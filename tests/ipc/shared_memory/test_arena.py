"""The arena: values arrive whole or not at all, slots come back."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollup_node.ipc.shared_memory.arena import GENERATION_SHIFT, Arena, Descriptor

SLOT = 4096


@pytest.fixture
def arena() -> Iterator[Arena]:
    made = Arena(3, slots=4, slot_bytes=SLOT)
    made.take_over(1)
    yield made
    made.close()


def stored(arena: Arena, data: bytes, *readers: int) -> Descriptor:
    """Puts what is known to fit."""
    descriptor = arena.put(data, readers)
    assert descriptor is not None
    return descriptor


@pytest.mark.parametrize("length", [0, 1, SLOT - 1, SLOT, SLOT + 1, 4 * SLOT])
def test_a_value_comes_back_as_it_was(arena: Arena, length: int) -> None:
    data = bytes(number % 251 for number in range(length))
    assert arena.get(stored(arena, data, 1)) == data


def test_full_and_too_long_are_none(arena: Arena) -> None:
    assert arena.put(bytes(4 * SLOT + 1), (1,)) is None
    stored(arena, bytes(3 * SLOT), 1)
    assert arena.put(bytes(2 * SLOT), (1,)) is None
    assert arena.put(bytes(SLOT), (1,)) is not None


def test_a_slot_is_free_when_all_readers_are_done(arena: Arena) -> None:
    descriptor = stored(arena, bytes(4 * SLOT), 1, 2)
    arena.ack(1, descriptor)
    arena.reap()
    assert arena.free == 0
    arena.ack(2, descriptor)
    arena.ack(2, descriptor)
    assert arena.put(b"next", (1,)) is not None


def test_a_dead_reader_holds_nothing(arena: Arena) -> None:
    stored(arena, bytes(2 * SLOT), 1, 2)
    stored(arena, bytes(2 * SLOT), 1)
    arena.reader_died(1)
    assert arena.free == 2
    arena.reader_died(2)
    assert arena.free == 4


def test_what_was_not_sent_is_given_back_at_once(arena: Arena) -> None:
    first, second = stored(arena, bytes(SLOT), 1, 2), stored(arena, bytes(SLOT), 1)
    arena.withdraw(second, 1)
    assert arena.free == 3
    arena.withdraw(first, 1)
    assert arena.free == 3
    third = stored(arena, bytes(SLOT), 2)
    arena.withdraw(second, 2)
    assert arena.free == 2 and arena.get(third) is not None, "an old descriptor withdraws nothing"


def test_a_new_incarnation_voids_all_and_frees_all(arena: Arena) -> None:
    descriptor = stored(arena, b"old", 1)
    arena.take_over(2)
    assert arena.get(descriptor) is None
    assert arena.free == 4
    fresh = stored(arena, b"new", 1)
    assert fresh.slots[0][1] >> GENERATION_SHIFT == 2
    assert arena.get(descriptor) is None and arena.get(fresh) == b"new"


def test_a_reused_slot_voids_the_old_descriptor(arena: Arena) -> None:
    descriptor = stored(arena, bytes(4 * SLOT), 1)
    arena.ack(1, descriptor)
    stored(arena, b"x", 1)
    assert arena.get(descriptor) is None


def test_a_late_acknowledgement_never_lowers_a_cell(arena: Arena) -> None:
    old = stored(arena, bytes(4 * SLOT), 1)
    arena.ack(1, old)
    arena.reap()
    new = stored(arena, bytes(4 * SLOT), 1)
    arena.ack(1, new)
    arena.ack(1, old)
    arena.reap()
    assert arena.free == 4


def test_a_producer_that_dies_in_mid_write_leaves_a_void_slot(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    descriptor = stored(arena, b"a" * SLOT, 1)
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
        arena.put(b"b" * SLOT, (1,))
    monkeypatch.undo()
    assert arena.get(descriptor) is None
    arena.take_over(2)
    assert arena.get(stored(arena, b"c", 1)) == b"c"


words = st.one_of(st.integers(0, 8), st.integers(0, (1 << 63) - 1))


@settings(max_examples=200)
@given(length=words, slots=st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_a_hostile_descriptor_reads_and_frees_nothing(length: int, slots: list[tuple[int, int]]) -> None:
    arena = Arena(2, slots=4, slot_bytes=SLOT)
    try:
        arena.take_over(3)
        held = stored(arena, bytes(2 * SLOT), 1)
        hostile = Descriptor(length, tuple(slots))
        assert arena.get(hostile) is None
        arena.ack(1, hostile)
        arena.reap()
        assert arena.free == 2 and arena.get(held) is not None
    finally:
        arena.close()


def test_a_wrong_length_is_void(arena: Arena) -> None:
    descriptor = stored(arena, b"four", 1)
    assert arena.get(Descriptor(3, descriptor.slots)) is None
    assert arena.get(Descriptor(5, descriptor.slots)) is None


def test_readers_outside_are_refused(arena: Arena) -> None:
    with pytest.raises(IndexError, match="readers 0 to 2"):
        arena.ack(3, stored(arena, b"x", 1))


class ArenaHistory(RuleBasedStateMachine):
    """Any order of puts, reads, acknowledgements and deaths: a read gives the value put, or nothing once it may."""

    def __init__(self) -> None:
        super().__init__()
        self.arena = Arena(2, slots=5, slot_bytes=SLOT)
        self.incarnation = 1
        self.arena.take_over(1)
        self.sent: list[tuple[Descriptor, bytes, set[int]]] = []
        self.count = 0

    @rule(length=st.integers(0, 3 * SLOT), readers=st.sets(st.integers(0, 1), min_size=1))
    def put(self, length: int, readers: set[int]) -> None:
        self.count += 1
        data = (self.count.to_bytes(2, "big") * SLOT * 2)[:length]
        needed = max(1, -(-length // SLOT))
        self.arena.reap()
        room = self.arena.free
        descriptor = self.arena.put(data, readers)
        assert (descriptor is None) == (needed > room)
        if descriptor is not None:
            self.sent.append((descriptor, data, set(readers)))

    @precondition(lambda self: self.sent)
    @rule(index=st.integers(0, 50), reader=st.integers(0, 1), ack=st.booleans())
    def read(self, index: int, reader: int, ack: bool) -> None:
        descriptor, data, waiting = self.sent[index % len(self.sent)]
        value = self.arena.get(descriptor)
        assert value == data if waiting else value in (None, data)
        if ack:
            self.arena.ack(reader, descriptor)
            waiting.discard(reader)

    @rule(reader=st.integers(0, 1))
    def reader_dies(self, reader: int) -> None:
        self.arena.reader_died(reader)
        for _, _, waiting in self.sent:
            waiting.discard(reader)

    @rule()
    def producer_dies(self) -> None:
        self.incarnation += 1
        self.arena.take_over(self.incarnation)
        assert all(self.arena.get(descriptor) is None for descriptor, _, _ in self.sent)
        self.sent.clear()

    @invariant()
    def nothing_leaks(self) -> None:
        self.arena.reap()
        held = sum(len(descriptor.slots) for descriptor, _, waiting in self.sent if waiting)
        assert self.arena.free == 5 - held

    def teardown(self) -> None:
        self.arena.close()


ArenaHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestArenaHistory = ArenaHistory.TestCase
