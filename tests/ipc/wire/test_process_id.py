"""Names of processes towards ROUTER sockets."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.wire.process_id import ProcessId, process_id_of


@given(st.integers(0, 65535), st.integers(0, (1 << 63) - 1))
def test_a_name_comes_back(row: int, incarnation: int) -> None:
    peer = ProcessId(row, incarnation)
    assert process_id_of(peer.identity()) == peer


@given(st.binary(max_size=20))
def test_other_names_are_nobodys(identity: bytes) -> None:
    peer = process_id_of(identity)
    assert peer is None or peer.identity() == identity


def test_zeromq_takes_the_name() -> None:
    identity = ProcessId(0, 0).identity()
    assert identity[0] != 0 and len(identity) <= 255
