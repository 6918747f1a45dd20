"""Two hosts of ours over loopback: streams, services, gates, limits, and their end."""

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr, tcp_multiaddr
from rollup_node.stages.p2p.config import ResourceLimits
from rollup_node.stages.p2p.host.io import host as transport_host
from rollup_node.stages.p2p.host.io import identify_service
from rollup_node.stages.p2p.host.io.connection import TransportError
from rollup_node.stages.p2p.host.io.host_api import (
    DialError,
    Direction,
    PeerConnected,
    PeerDisconnected,
    PeerIdentified,
    Stream,
    StreamError,
)
from rollup_node.stages.p2p.identity.peer_id import NetworkIdentity
from tests.support.p2p_hosts import ECHO, RecordingHost, config, echo, echo_through, running_host, until

Test = Callable[[RecordingHost, RecordingHost], Coroutine[Any, Any, None]]


def with_two(test: Test, **options: Any) -> None:
    """Runs a test with two connected hosts; nothing may be left afterwards."""

    async def run() -> None:
        async with running_host(1, **options) as ours, running_host(2, **options) as theirs:
            await ours.connect(theirs.peer_id, theirs.addresses)
            await theirs.wait_for(PeerIdentified)
            await ours.wait_for(PeerIdentified)
            await test(ours, theirs)
        await until(lambda: len(asyncio.all_tasks()) == 1, 5)

    asyncio.run(run())


async def reset(stream: Stream) -> None:
    """A handler that answers nothing."""
    stream.reset()


def test_both_hear_of_each_other() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        assert isinstance(ours.events[0], PeerConnected) and isinstance(theirs.events[0], PeerConnected)
        assert (ours.events[0].direction, theirs.events[0].direction) == (Direction.OUTBOUND, Direction.INBOUND)
        info = ours.connection(theirs.peer_id)
        assert info is not None and info.identify is not None
        assert info.identify.agent_version == "optimism"
        assert info.identify.listen_addresses == theirs.addresses
        assert ECHO in info.identify.protocols
        assert ours.peerstore.addresses(theirs.peer_id) == list(theirs.addresses)
        assert theirs.peerstore.addresses(ours.peer_id) == list(ours.addresses)
        description = ours.peerstore.identify_record(theirs.peer_id)
        assert description is not None and description.agent == "optimism"
        ours.disconnect(theirs.peer_id, "enough")
        await theirs.wait_for(PeerDisconnected)
        assert ours.connections() == theirs.connections() == []
        assert isinstance(ours.events[-1], PeerDisconnected)
        assert [(gone.peer, gone.reason) for gone in ours.closed_connections] == [(theirs.peer_id, "enough")]
        assert (
            theirs.closed_connections[0].reason == "closed by the peer"
            and 0 < theirs.closed_connections[0].seconds < 30
        )

    with_two(test)


@pytest.mark.parametrize("early", [True, False])
def test_streams_carry_any_size_both_ways(early: bool) -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        for size in (0, 1, 65_507, 300_000, 1_500_000):
            data = os.urandom(size)
            assert await echo_through(ours, theirs.peer_id, data) == data
            assert await echo_through(theirs, ours.peer_id, data) == data
        answers = await asyncio.gather(*(echo_through(ours, theirs.peer_id, bytes([n]) * 200_000) for n in range(20)))
        assert answers == [bytes([n]) * 200_000 for n in range(20)]
        await until(
            lambda: (
                not any(
                    link.streams
                    for host in (ours, theirs)
                    for peer in host.peers()
                    for link in host.connections_to_peer(peer)
                )
            )
        )

    with_two(test, early_muxer=early)


def test_the_first_protocol_in_common_is_taken() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        protocol, stream = await ours.open_stream(theirs.peer_id, ["/other/1", "/third/1", ECHO])
        assert protocol == stream.protocol == ECHO and stream.peer == theirs.peer_id
        stream.reset()
        with pytest.raises(StreamError, match="does not support /other/1"):
            await ours.open_stream(theirs.peer_id, ["/other/1"])
        with pytest.raises(StreamError, match="is not connected"):
            await ours.open_stream(b"\x00\x01x", [ECHO])

    with_two(test)


def test_reading_in_all_ways() -> None:
    async def speak(stream: Stream) -> None:
        await stream.write_message(b"one")
        await stream.write_message(b"")
        await stream.write_message(bytes(70_000))
        await stream.write(b"\x05abc")

    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        theirs.set_stream_handler("/speak/1", speak)
        _, stream = await ours.open_stream(theirs.peer_id, ["/speak/1"])
        assert await stream.read_message(100) == b"one"
        assert await stream.read_message(100) == b""
        with pytest.raises(StreamError, match="message of 70000 bytes exceeds 100"):
            await stream.read_message(100)
        stream.reset()
        _, stream = await ours.open_stream(theirs.peer_id, ["/speak/1"])
        assert await stream.read_exactly(5) == b"\x03one\x00"
        assert len(await stream.read_message(70_000) or b"") == 70_000
        with pytest.raises(StreamError, match="2 bytes early"):
            await stream.read_message(100)
        assert await stream.read() == b""
        assert await stream.read_message(100) is None
        stream.close()
        _, stream = await ours.open_stream(theirs.peer_id, ["/speak/1"])
        with pytest.raises(StreamError, match="more than 1000 bytes"):
            await stream.read_all(1000)
        stream.reset()

    with_two(test)


def test_resets_reach_readers_and_writers() -> None:
    held: list[Stream] = []
    released = asyncio.Event()

    async def hold(stream: Stream) -> None:
        held.append(stream)
        await released.wait()

    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        theirs.set_stream_handler("/hold/1", hold)
        _, stream = await ours.open_stream(theirs.peer_id, ["/hold/1"])
        reading = asyncio.create_task(stream.read())
        writing = asyncio.create_task(stream.write(bytes(1_000_000)))
        await until(lambda: held)
        await asyncio.sleep(0.05)
        assert not reading.done() and not writing.done()
        held[0].reset()
        for task in (reading, writing):
            with pytest.raises(StreamError, match="reset by the peer"):
                await task
        released.set()

    with_two(test)


def test_what_came_before_a_reset_is_read() -> None:
    async def answer_and_reset(stream: Stream) -> None:
        await stream.write(b"answer")
        if await stream.read() == b"end":
            stream.close()
        stream.reset()

    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        theirs.set_stream_handler("/answer/1", answer_and_reset)
        for said in (b"end", b"cut"):
            _, stream = await ours.open_stream(theirs.peer_id, ["/answer/1"])
            await stream.write(said)
            await asyncio.sleep(0.1)
            assert await stream.read_exactly(6) == b"answer"
            if said == b"end":
                assert await stream.read() == b""
            with pytest.raises(StreamError, match="reset by the peer"):
                await (stream.write(b"more") if said == b"end" else stream.read())

    with_two(test)


def test_what_is_not_read_is_bounded_and_others_go_on() -> None:
    released = asyncio.Event()

    async def hold(stream: Stream) -> None:
        await released.wait()
        assert len(await stream.read_all(5_000_000)) == 2_000_000
        await stream.write(b"all")

    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        theirs.set_stream_handler("/hold/1", hold)
        _, stream = await ours.open_stream(theirs.peer_id, ["/hold/1"])
        writing = asyncio.create_task(stream.write(bytes(2_000_000)))
        await asyncio.sleep(0.1)
        assert await echo_through(ours, theirs.peer_id, b"still served") == b"still served"
        link = theirs.connections_to_peer(ours.peer_id)[0]
        assert link.unread_bytes <= 256 * 1024 and not writing.done()
        released.set()
        await writing
        stream.close()
        assert await stream.read_all(10) == b"all"

    with_two(test)


def test_a_handler_that_fails_costs_its_peer_the_connection(capsys: pytest.CaptureFixture[str]) -> None:
    async def fail(_: Stream) -> None:
        raise RuntimeError("a bug")

    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        theirs.set_stream_handler("/fail/1", fail)
        with pytest.raises(StreamError):
            _, stream = await ours.open_stream(theirs.peer_id, ["/fail/1"])
            await stream.read()
        await ours.wait_for(PeerDisconnected)
        await ours.connect(theirs.peer_id, theirs.addresses)
        assert await echo_through(ours, theirs.peer_id, b"again") == b"again"

    with_two(test)
    assert "RuntimeError: a bug" in capsys.readouterr().err


def test_pings_measure() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        assert 0 < await ours.ping.ping(theirs.peer_id) < 5
        await theirs.ping.measure_latency(ours.peer_id)
        info = ours.connection(theirs.peer_id)
        assert info is not None and info.latency is not None and 0 < info.latency < 5
        theirs.set_stream_handler("/ipfs/ping/1.0.0", reset)
        with pytest.raises(StreamError):
            await ours.ping.ping(theirs.peer_id)
        await ours.ping.measure_latency(theirs.peer_id)

    with_two(test)


def test_changes_are_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identify_service, "PUSH_MIN_INTERVAL", 0.0)

    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        def known() -> tuple[str, ...]:
            info = ours.connection(theirs.peer_id)
            return info.identify.protocols if info and info.identify else ()

        theirs.set_stream_handler("/later/1", echo)
        await until(lambda: "/later/1" in known())
        theirs.set_stream_handler("/later/2", echo)
        await until(lambda: {"/later/1", "/later/2"} <= set(known()))

    with_two(test)


def test_one_dial_at_a_time_and_one_connection() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        ours.disconnect(theirs.peer_id, "again")
        await theirs.wait_for(PeerDisconnected)
        await asyncio.gather(*(ours.connect(theirs.peer_id) for _ in range(5)))
        await ours.connect(theirs.peer_id)
        await theirs.connect(ours.peer_id)
        assert len(ours.connections_to_peer(theirs.peer_id)) == len(theirs.connections_to_peer(ours.peer_id)) == 1

    with_two(test)


def test_crossing_dials_leave_a_connection() -> None:
    async def run() -> None:
        async with running_host(1) as ours, running_host(2) as theirs:
            await asyncio.gather(
                ours.connect(theirs.peer_id, theirs.addresses), theirs.connect(ours.peer_id, ours.addresses)
            )
            assert await echo_through(ours, theirs.peer_id, b"a") == b"a"
            assert await echo_through(theirs, ours.peer_id, b"b") == b"b"
            assert [type(event) for event in ours.events].count(PeerConnected) == 1

    asyncio.run(run())


def test_dialling_says_why_it_failed() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        stranger = NetworkIdentity(b"\x07" * 32).peer_id
        closed = parse_multiaddr("/ip4/127.0.0.1/tcp/1")
        for addresses, why in [
            ([], "no known address of"),
            ([closed], "/ip4/127.0.0.1/tcp/1: .*refused"),
            ([closed, theirs.addresses[0]], "refused; .*the remote end is"),
            ([parse_multiaddr("/ip4/192.0.2.1/tcp/1")], "outside p2p.netrestrict"),
            ([parse_multiaddr("/ip4/127.0.0.1/udp/1")], "not a TCP address"),
            ([theirs.addresses[0].with_peer_id(theirs.peer_id)], "the address of another peer"),
        ]:
            with pytest.raises(DialError, match=why):
                await ours.connect(stranger, addresses)
            assert ours.dialer.last_errors[stranger]
        with pytest.raises(DialError, match="this node itself"):
            await ours.connect(ours.peer_id, ours.addresses)

    with_two(test)


def test_names_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without asking a name server: `localhost` stands in the hosts file, and a failure is made up."""

    async def fail(*_: object, **__: object) -> None:
        raise OSError(-2, "Name or service not known")

    async def run() -> None:
        async with running_host(1) as ours, running_host(2) as theirs:
            address = parse_multiaddr(f"/dns4/localhost/tcp/{theirs.port}")
            await ours.connect(theirs.peer_id, [address])
            ours.disconnect(theirs.peer_id, "again")
            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
            with pytest.raises(DialError, match="the name cannot be resolved: Name or service not known"):
                await ours.connect(theirs.peer_id, [address])

    asyncio.run(run())


def test_a_peer_that_says_nothing_is_given_up() -> None:
    async def run() -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with running_host(1, handshake_timeout=0.2) as ours:
            with pytest.raises(DialError, match="handshake not finished within"):
                await ours.connect(NetworkIdentity(b"\x07" * 32).peer_id, [tcp_multiaddr("127.0.0.1", port)])
        server.close()
        await until(lambda: len(asyncio.all_tasks()) == 1, 5)

    asyncio.run(run())


def test_blocked_and_banned_peers_are_kept_out() -> None:
    async def test(ours: RecordingHost, theirs: RecordingHost) -> None:
        theirs.ban(ours.peer_id, 3600.0, "bad score")
        await ours.wait_for(PeerDisconnected)
        await until(lambda: not theirs.connections())
        with pytest.raises(DialError, match="peer banned"):
            await theirs.connect(ours.peer_id)
        await ours.connect(theirs.peer_id)
        await until(lambda: not ours.connections())
        assert theirs.connections() == []
        theirs.connection_gater.peer_bans.clear()
        theirs.connection_gater.blocked_ips.add(parse_ip("127.0.0.1"))
        theirs.save_gater()
        with pytest.raises(DialError):
            await ours.connect(theirs.peer_id)
        assert theirs.peerstore.load_gater().blocked_ips == {parse_ip("127.0.0.1")}
        text = theirs.meter.text().decode()
        assert 'op_node_default_p2p_accepts{allow="false"} 1.0' in text

    with_two(test)


def test_connections_are_bounded() -> None:
    async def run() -> None:
        limits = ResourceLimits(connections=3)
        async with running_host(1, limits=limits) as ours:
            hosts = [RecordingHost(number) for number in range(2, 7)]
            for host in hosts:
                await host.start()
                await host.connect(ours.peer_id, ours.addresses)
            await until(lambda: len(ours.peers()) == 3)
            await until(lambda: sum(bool(host.connections()) for host in hosts) == 3)
            ours.connection_manager.protect(hosts[4].peer_id, "static")
            await hosts[4].connect(ours.peer_id, ours.addresses)
            await until(lambda: hosts[4].peer_id in ours.peers())
            for host in hosts:
                await host.stop()

    asyncio.run(run())


def test_a_crowd_from_one_host_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_host, "is_over_host_limit", lambda ip, others: len(others) >= 2)

    async def run() -> None:
        async with running_host(1) as ours, running_host(2) as one, running_host(3) as two, running_host(4) as three:
            for host in (one, two):
                await host.connect(ours.peer_id, ours.addresses)
            with pytest.raises(DialError):
                await three.connect(ours.peer_id, ours.addresses)
            await ours.connect(three.peer_id, three.addresses)
            assert len(ours.peers()) == 3, "whom we dial comes in"

    asyncio.run(run())


def test_a_port_in_use_is_told() -> None:
    async def run() -> None:
        async with running_host(1) as ours:
            second = RecordingHost(2, listen_tcp=ours.port)
            with pytest.raises(TransportError, match=r"cannot listen for peers on 127.0.0.1:\d+: .*in use"):
                await second.start()

    asyncio.run(run())


def test_silent_connections_are_pinged_and_dead_ones_closed() -> None:
    async def run() -> None:
        async with running_host(1) as ours, running_host(2) as theirs:
            ours.timeouts = ours.timeouts._replace(keepalive=0.3)
            await ours.connect(theirs.peer_id, theirs.addresses)
            await theirs.wait_for(PeerIdentified)
            await asyncio.sleep(1.0)
            assert ours.connections() and theirs.connections()
            transport = theirs.connections_to_peer(ours.peer_id)[0]._transport
            assert transport is not None
            transport.pause_reading()
            await ours.wait_for(PeerDisconnected, 5)

    asyncio.run(run())


def test_idle_connections_are_closed() -> None:
    async def run() -> None:
        async with running_host(1, idle_timeout=0.3) as ours, running_host(2) as theirs:
            ours.timeouts = ours.timeouts._replace(keepalive=0.1)
            await ours.connect(theirs.peer_id, theirs.addresses)
            await theirs.wait_for(PeerDisconnected, 5)

    asyncio.run(run())


def test_ipv6() -> None:
    async def run() -> None:
        options = {"listen_ip": "::1", "netrestrict": ("::1/128",)}
        async with running_host(1, **options) as ours, running_host(2, **options) as theirs:
            await ours.connect(theirs.peer_id, theirs.addresses)
            assert str(theirs.addresses[0]) == f"/ip6/::1/tcp/{theirs.port}"
            assert await echo_through(ours, theirs.peer_id, b"six") == b"six"

    if not _has_ipv6():
        pytest.skip("this machine has no IPv6 loopback address")
    asyncio.run(run())


def _has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def test_tests_stay_on_the_loopback_interface() -> None:
    assert config().netrestrict == ("127.0.0.0/8",)
    assert config().listen_ip == "127.0.0.1" and config().bootnodes == ()
