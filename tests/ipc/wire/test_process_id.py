"""Routing ids of processes."""

from hypothesis import given
from hypothesis import strategies as st

from rollup_node.ipc.wire.process_id import ProcessId, process_id_of


@given(st.integers(0, 65535), st.integers(0, (1 << 63) - 1))
def test_a_routing_id_names_its_process(slot: int, incarnation: int) -> None:
    process_id = ProcessId(slot, incarnation)
    assert process_id_of(process_id.routing_id()) == process_id


@given(st.binary(max_size=20))
def test_other_bytes_name_no_process(routing_id: bytes) -> None:
    process_id = process_id_of(routing_id)
    assert process_id is None or process_id.routing_id() == routing_id
