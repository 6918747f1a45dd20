"""Our discovery against @chainsafe/discv5: handshakes whoever begins, lookups both ways, records as the other makes
them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from rollup_node.stages.p2p.addresses.ip import parse_ip
from rollup_node.stages.p2p.discv5.calls import DiscoveryPurpose, OutgoingCall
from rollup_node.stages.p2p.discv5.enr import Endpoint, Enr, OpStackEntry, parse_enr
from tests.support.foreign.js_peers import JsError, JsPeer, js_peer, js_program
from tests.support.p2p.discv5_servers import running_discv5, running_discv5_servers
from tests.support.p2p.hosts import config
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.loopback import free_port, own_address
from tests.support.timing.conditions import until

PROGRAM = "discv5_peer.mjs"
CHAIN = config().rollup.l2_chain_id


@pytest.fixture(scope="module", autouse=True)
def program(module_leftovers: Leftovers) -> Iterator[None]:
    with js_program(PROGRAM, module_leftovers):
        yield


@asynccontextmanager
async def running_js_node(secret: str = "01") -> AsyncIterator[JsPeer]:
    async with js_peer(
        secret=secret * 32,
        ip=own_address(),
        port=free_port(socket.SOCK_DGRAM),
        opstack=OpStackEntry(CHAIN).encode().hex(),
    ) as peer:
        yield peer


def their_record(peer: JsPeer) -> Enr:
    return parse_enr(peer.ready["record"])


async def test_their_record_parses_and_our_ping_is_answered() -> None:
    async with running_js_node() as theirs:
        record = their_record(theirs)
        assert record.node_id.hex() == theirs.ready["node"]
        assert record.opstack == OpStackEntry(CHAIN) and record.text == theirs.ready["record"]
        async with running_discv5("ours", bootnodes=(record.text,)) as ours:
            await until(lambda: ours.discovered)
            assert ours.discovered[0].record.text == record.text
            assert not ours.node.drops
            assert ours.enr.text in await theirs.call("table")


async def test_they_initiate_the_handshake() -> None:
    async with running_js_node() as theirs, running_discv5("ours") as ours:
        pong = await theirs.call("ping", record=ours.enr.text)
        assert pong == {
            "seq": ours.enr.seq,
            "port": their_endpoint(theirs).port,
            "ip": list(parse_ip(own_address()).packed),
        }
        await theirs.call("ping", record=ours.enr.text)
        assert await theirs.call("talk", record=ours.enr.text, protocol="unknown") == ""
        await until(lambda: ours.discovered)
        assert ours.discovered[0].record.text == theirs.ready["record"]
        assert len(ours.node.codec.sessions) == 1


async def test_a_lost_session_is_established_again() -> None:
    async with running_js_node() as theirs, running_discv5("ours") as ours:
        await theirs.call("ping", record=ours.enr.text)
        ours.node.codec.sessions.clear()
        pong = await theirs.call("ping", record=ours.enr.text)
        assert pong["seq"] == ours.enr.seq


async def test_handshakes_that_cross() -> None:
    """Both ends send a request at about the same time after we have lost the session.

    Theirs, which they send once, is answered whoever is first; a machine that keeps one end from running for a
    second may cost a few."""

    async with running_js_node() as theirs, running_discv5("ours") as ours:
        await theirs.call("ping", record=ours.enr.text)
        await until(lambda: ours.discovered)
        contact, calls, failures = their_record(theirs).contact(), ours.node.calls, 0
        assert contact is not None
        for number in range(20):
            ours.node.codec.sessions.clear()
            pinging = asyncio.create_task(theirs.call("ping", record=ours.enr.text))
            await asyncio.sleep(0.0006 * number)
            call = OutgoingCall(contact, DiscoveryPurpose.LOOKUP, (256,))
            assert calls.submit(call, 1, asyncio.get_running_loop().time())
            ours.flush()
            try:
                assert (await pinging)["seq"] == ours.enr.seq
            except JsError:
                failures += 1
            await until(lambda: not calls.has_call(contact.node_id))
        assert failures <= 5, f"{failures} of 20 failed; dropped datagrams: {dict(ours.node.drops)}"


async def test_their_lookups_go_through_our_nodes() -> None:
    async with (
        running_js_node() as theirs,
        running_discv5("boot") as boot,
        running_discv5_servers(8, bootnodes=(boot.enr.text,)) as nodes,
    ):
        await until(lambda: all(len(node.discovered) >= 7 for node in nodes), 25)
        await theirs.call("add", record=boot.enr.text)
        result: set[str] = set()
        for _ in range(6):
            result |= set(await theirs.call("random"))
        assert len(result & {node.enr.text for node in nodes}) >= 6


async def test_our_lookups_go_through_their_node() -> None:
    async with running_js_node() as theirs, running_discv5_servers(12) as nodes:
        record = their_record(theirs)
        for node in nodes:
            await theirs.call("ping", record=node.enr.text)
            await theirs.call("add", record=node.enr.text)
        async with running_discv5("late", bootnodes=(record.text,)) as late:
            wanted = {node.enr.text for node in nodes} & set(await theirs.call("table"))
            assert len(wanted) >= 10
            await until(lambda: wanted <= {peer.record.text for peer in late.discovered}, 25)


def their_endpoint(theirs: JsPeer) -> Endpoint:
    endpoint = their_record(theirs).udp(4)
    assert isinstance(endpoint, Endpoint) and endpoint.ip == parse_ip(own_address())
    return endpoint
