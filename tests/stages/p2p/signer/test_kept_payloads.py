"""Which payloads are kept: the latest, within the bounds [SGN12]."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.p2p.signer.kept_payloads import MAX_BYTES, MAX_PAYLOADS, KeptPayload, KeptPayloads


def name(number: int) -> bytes:
    return number.to_bytes(32, "big")


def kept(found: KeptPayloads) -> list[int]:
    """The numbers of the kept payloads, the last one first."""
    return [each.number for each in found.newest_first()]


def test_a_block_is_kept_once() -> None:
    found = KeptPayloads()
    assert found.add(7, name(7), 100) == KeptPayload(1, 7, name(7), 100)
    assert found.add(7, name(7), 100) is None
    assert found.find(name(7)) == KeptPayload(1, 7, name(7), 100) and found.find(name(8)) is None
    assert kept(found) == [7] and found.lowest == 1


def test_the_latest_payloads_are_kept() -> None:
    found = KeptPayloads()
    for number in range(1, MAX_PAYLOADS + 4):
        found.add(number, name(number), 10)
    assert kept(found) == list(range(MAX_PAYLOADS + 3, 3, -1)) and found.lowest == 4
    assert found.find(name(3)) is None


def test_the_last_payload_is_kept_whatever_its_size() -> None:
    found = KeptPayloads()
    found.add(1, name(1), 10)
    found.add(2, name(2), MAX_BYTES + 1)
    assert kept(found) == [2] and found.lowest == 2
    found.add(3, name(3), 10)
    assert kept(found) == [3]


@given(st.lists(st.integers(1, MAX_BYTES // 2), max_size=40), st.integers(0, 40))
def test_a_restart_changes_nothing(sizes: list[int], at: int) -> None:
    """The order is that of the positions, in whatever order they were read."""
    found = again = KeptPayloads()
    for number, size in enumerate(sizes):
        if number == at:
            again = KeptPayloads(sorted(found.newest_first(), key=lambda each: each.hash[::-1]))
        expected, got = found.add(number, name(number), size), again.add(number, name(number), size)
        assert number < at or expected == got
    if at < len(sizes):
        assert kept(found) == kept(again) and found.lowest == again.lowest
    assert sum(each.size for each in found.newest_first()) <= MAX_BYTES
