import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity
from rollup_node.stages.p2p.transport.noise import NoiseKeys
from rollup_node.stages.p2p.transport.upgrader import UpgradedConnection, Upgrader

OURS, THEIRS = NetworkIdentity(b"\x01" * 32), NetworkIdentity(b"\x02" * 32)


def ends(early: bool = True, their_early: bool = True, expected: bytes | None = None) -> tuple[Upgrader, Upgrader]:
    keys = [NoiseKeys(bytes([number]) * 32, bytes([number + 1]) * 32) for number in (3, 5)]
    return (
        Upgrader(OURS, keys[0], initiator=True, expected_peer=expected, early_muxer=early),
        Upgrader(THEIRS, keys[1], initiator=False, early_muxer=their_early),
    )


def run(ours: Upgrader, theirs: Upgrader, sizes: list[int]) -> tuple[UpgradedConnection, UpgradedConnection]:
    """Pass bytes both ways, cut by the sizes, until both ends are done."""
    done: dict[bool, UpgradedConnection] = {}
    for _ in range(12):
        for is_ours, writer, reader in ((True, ours, theirs), (False, theirs, ours)):
            raw = writer.data_to_send()
            for size in [*sizes, len(raw)]:
                part, raw = raw[:size], raw[size:]
                result = reader.receive_data(part) if part else None
                if result is not None:
                    done[not is_ours] = result
    return done[True], done[False]


@settings(max_examples=40)
@given(st.booleans(), st.booleans(), st.lists(st.integers(1, 60), max_size=30))
def test_upgrades_work_however_the_bytes_are_split(early: bool, their_early: bool, sizes: list[int]) -> None:
    ours, theirs = run(*ends(early, their_early, THEIRS.peer_id), sizes)
    assert (ours.peer, theirs.peer) == (THEIRS.peer_id, OURS.peer_id)
    assert ours.early_data == theirs.early_data == b""
    assert theirs.session.receive_data(b"".join(ours.session.encrypt(b"there"))) == [b"there"]
    assert ours.session.receive_data(b"".join(theirs.session.encrypt(b"back"))) == [b"back"]


@pytest.mark.parametrize("early", [True, False])
def test_bytes_right_after_the_upgrade_are_returned(early: bool) -> None:
    """The dialler may send its first streams together with the last message of its upgrade."""
    ours, theirs = ends(early, early)
    result = None
    while result is None:
        theirs.receive_data(ours.data_to_send())
        result = ours.receive_data(theirs.data_to_send())
    last = ours.data_to_send() + b"".join(result.session.encrypt(b"first stream"))
    value = theirs.receive_data(last)
    assert value is not None and value.early_data == b"first stream"
