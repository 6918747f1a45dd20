"""Which connections of a server stay [RPC8]."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.stages.rpc.connections import ClientConnection, ConnectionTable, Limits, Phase, counted_address

LIMITS = Limits(connections=4, per_address=3, held_bytes=100)


def opened(table: ConnectionTable, *peers: str) -> list[ClientConnection]:
    return [table.open(peer, float(time)) for time, peer in enumerate(peers)]


def test_an_address_loses_the_connection_that_has_waited_longest() -> None:
    table = ConnectionTable(LIMITS)
    first, second, _, fourth = opened(table, "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.1")
    table.enter(first, Phase.RESPONSE, 5.0)
    assert table.crowded_out(fourth) is second
    table.close(second)
    assert table.crowded_out(fourth) is None


def test_clients_that_send_requests_without_end_do_not_push_out_a_first_request() -> None:
    table = ConnectionTable(LIMITS)
    honest, busy, busier, newcomer = opened(table, *["10.0.0.1"] * 4)
    for time, connection in enumerate((busy, busier), start=5):
        table.enter(connection, Phase.RESPONSE, time)
        table.enter(connection, Phase.IDLE, time)
    table.enter(honest, Phase.RESPONSE, 7.0)
    for time, connection in enumerate((busier, busy), start=8):
        table.enter(connection, Phase.RESPONSE, time)
    assert table.crowded_out(newcomer) is busier


def test_the_address_with_most_connections_makes_room() -> None:
    """Among single connections the oldest does."""
    table = ConnectionTable(LIMITS)
    connections = opened(table, "10.0.0.2", "10.0.0.1", "10.0.0.1", "10.0.0.1", "10.0.0.3")
    assert table.crowded_out(connections[-1]) is connections[1]
    table = ConnectionTable(LIMITS)
    connections = opened(table, *(f"10.0.0.{number}" for number in range(5)))
    table.enter(connections[0], Phase.IDLE, 9.0)
    assert table.crowded_out(connections[-1]) is connections[1]


def test_the_address_that_holds_most_bytes_loses_its_heaviest() -> None:
    table = ConnectionTable(LIMITS)
    heavy, heavier, single = opened(table, "10.0.0.1", "10.0.0.1", "10.0.0.2")
    table.hold(heavy, 30)
    table.hold(heavier, 31)
    table.hold(single, 39)
    assert table.heaviest() is None
    table.hold(single, 1)
    assert table.heaviest() is heavier
    table.close(heavier)
    assert table.heaviest() is None
    table.hold(heavier, 1000)
    assert table.heaviest() is None


def test_limits_within_few_descriptors_and_the_time_of_each_phase() -> None:
    limits = Limits(connections=512, per_address=256, held_bytes=1)
    assert limits.within(10_000) == limits
    assert limits.within(100) == Limits(96, 48, 1)
    assert limits.within(8) == Limits(4, 2, 1)
    assert limits.within(0).connections == 0
    table = ConnectionTable(limits)
    (connection,) = opened(table, "10.0.0.1")
    assert table.expired(30.0) == [] and table.expired(30.1) == [connection]
    table.enter(connection, Phase.IDLE, 30.0)
    assert table.expired(149.0) == [] and table.expired(150.1) == [connection]


@pytest.mark.parametrize(
    ("peer", "counted"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("::ffff:10.1.2.3", "10.1.2.3"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        *((None, "unknown"), ("", "unknown"), ("/run/socket", "unknown")),
    ],
)
def test_addresses_are_counted_by_customer(peer: str | None, counted: str) -> None:
    assert counted_address(peer) == counted


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 60)), max_size=60))
def test_a_server_that_obeys_stays_within_its_limits(steps: list[tuple[int, int, int]]) -> None:
    table = ConnectionTable(LIMITS)
    alive: list[ClientConnection] = []
    for time, (address, action, size) in enumerate(steps):
        if action == 0 or not alive:
            alive.append(table.open(f"10.0.0.{address}", time))
            while (crowded_out := table.crowded_out(alive[-1])) is not None:
                assert crowded_out is not alive[-1]
                table.close(crowded_out)
                alive.remove(crowded_out)
        elif action == 1:
            table.enter(alive[size % len(alive)], list(Phase)[address % 4], time)
        else:
            table.hold(alive[address % len(alive)], size)
            while (heaviest := table.heaviest()) is not None:
                table.close(heaviest)
                alive.remove(heaviest)
        assert len(table) == len(alive) <= LIMITS.connections
        assert sum(item.held for item in alive) <= LIMITS.held_bytes
        assert all(sum(item.address == one.address for item in alive) <= LIMITS.per_address for one in alive)
