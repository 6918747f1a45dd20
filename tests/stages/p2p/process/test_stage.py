"""Whole p2p processes over real sockets: gossip, sync, discovery, calls, and what goes wrong around them."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.messages.p2p import GapEnd, PayloadResponse, PublishRequest, UnsafeBlocksRequest
from rollup_node.stages.p2p.discv5.local_record import Advertised, LocalRecord
from rollup_node.stages.p2p.gating.connection_gater import parse_ip
from rollup_node.stages.p2p.reqresp import messages as sync_wire
from rollup_node.stages.protocol.block_hash import payload_block_hash
from tests.support.p2p_blocks import SIGNER, block
from tests.support.p2p_nodes import KEY, P2pNode, chain_of_now, now_block, play, timed_chain

EVENTS = 'op_node_default_p2p_gossip_events_total{type="'


def test_blocks_go_round_and_are_delivered_once(tmp_path: Path) -> None:
    """Three nodes in a row: each block comes to both others once, in order, and never back."""

    async def scene() -> None:
        rollup = chain_of_now()
        async with (
            P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
            P2pNode(2, rollup, tmp_path, static=(source.address,)).running() as second,
            P2pNode(3, rollup, tmp_path, static=(second.address,)).running() as third,
        ):
            nodes = (source, second, third)
            for node in nodes:
                await node.in_mesh()
            blocks = [now_block(number) for number in (1, 2, 3)]
            for each in blocks:
                assert await source.publish(each) is None
            for node in (second, third):
                await node.until(lambda node=node: len(node.arrived) == 3)
                assert node.arrived == blocks
            assert source.arrived == []
            await second.until(lambda: second.status is not None and second.status.connected == 2)
            assert second.health == ()
            await second.until(lambda: second.counted(EVENTS + 'DELIVER_MESSAGE"}') == 3)
            assert third.counted(EVENTS + 'GRAFT"}') > 0

    play(scene)


def test_the_same_block_is_published_once_and_a_new_engine_gets_it_back(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as node:
            first = now_block(1)
            assert await node.publish(first) is None and await node.publish(first) is None
            await node.until(lambda: node.counted(EVENTS + 'PUBLISH_MESSAGE"}'))
            assert node.stage.blocks.published == 2 and node.counted(EVENTS + 'PUBLISH_MESSAGE"}') == 1
            server = node.stage.blocks
            sent: list[Any] = []
            server._server.send = lambda peer, message: sent.append((peer.incarnation, message)) or True  # type: ignore[method-assign,func-returns-value]
            engine = server._engine
            assert engine is not None
            server._take(engine._replace(incarnation=2), UnsafeBlocksRequest(0, None))
            assert [(life, message.payload) for life, message in sent] == [(2, first)]
            server._take(engine, PublishRequest(9, first))
            assert len(sent) == 1, "an engine of before is not heard"

    play(scene)


def test_why_a_block_is_not_published(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with P2pNode(1, rollup, tmp_path).running() as node:
            assert await node.publish(now_block()) == "the node has no key to sign with (p2p.sequencer.key)"
        async with P2pNode(2, rollup, tmp_path, sequencer_key=b"\x22" * 32).running() as node:
            assert "peers would not accept the block: wrong_signer" in str(await node.publish(now_block()))
        async with P2pNode(3, rollup, tmp_path, sequencer_key=KEY).running() as node:
            assert "too_old" in str(await node.publish(block(number=1, timestamp=int(time.time()) - 100)))
            bare = msgspec.structs.replace(now_block(), withdrawals_root=None)
            assert "the block cannot be encoded: " in str(await node.publish(bare))

    play(scene)


def test_a_signer_that_rotates_is_followed(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with (
            P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
            P2pNode(2, rollup, tmp_path, static=(source.address,)).running() as node,
        ):
            await node.until(lambda: node.stage._signers.current == SIGNER.address)
            node.l1.set(RuntimeConfig(b"\x01" * 20))
            await node.until(lambda: node.stage._signers.current == b"\x01" * 20)
            await source.in_mesh()
            assert await source.publish(now_block(1)) is None
            await node.until(lambda: len(node.arrived) == 1)
            node.l1.set(RuntimeConfig(bytes(20)))
            await node.until(lambda: node.stage._signers.current is None)
            assert await source.publish(now_block(2)) is None
            await node.until(lambda: node.stage.gossip.refusals["no_signer"] == 1)
            node.l1.set(RuntimeConfig(SIGNER.address))
            await node.until(lambda: node.stage._signers.current == SIGNER.address)
            assert await source.publish(now_block(3)) is None
            await node.until(lambda: len(node.arrived) == 2)
            assert node.arrived[-1].block_number == 3

    play(scene)


@pytest.mark.parametrize("slash", [False, True], ids=["op-node's protocol", "kona's protocol"])
def test_a_gap_is_filled_from_peers(tmp_path: Path, slash: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        blocks = timed_chain(rollup, 20)
        async with P2pNode(1, rollup, tmp_path).running() as server:
            server.blocks = {each.block_number: each for each in blocks}
            async with P2pNode(2, rollup, tmp_path, static=(server.address,)).running() as node:
                assert node.stage.sync is not None
                if slash:
                    node.stage.sync._protocols = node.stage.sync._protocols[::-1]
                top = blocks[-1]
                want = UnsafeBlocksRequest(3, GapEnd(top.block_number, top.block_hash, top.parent_hash))
                planner = node.stage.sync._planner
                await node.until(lambda: planner._peers)
                node.engine.send(want)
                await node.until(lambda: len(node.arrived) == 16)
                assert sorted(node.arrived, key=lambda each: each.block_number) == blocks[3:19]
                assert node.counted('op_node_default_p2p_req_total{p2p_method="payload_by_number",p2p_role="cl') == 16
                assert server.counted('op_node_default_p2p_payload_by_number{p2p_role="server"}') >= 4
                scores = (await node.call("peers", True))["peers"][server.peer]["scores"]["reqResp"]
                assert scores["validResponses"] > 5 and scores["errorResponses"] == 0

    play(scene)


def test_peers_that_have_nothing_or_lie(tmp_path: Path) -> None:
    """One peer lacks all, one cannot say, one gives blocks of another chain: the fourth fills the gap."""

    async def scene() -> None:
        rollup = chain_of_now()
        blocks = timed_chain(rollup, 8)
        nodes = [P2pNode(number, rollup, tmp_path) for number in (1, 2, 3, 4)]
        async with nodes[0].running(), nodes[1].running(), nodes[2].running(), nodes[3].running():
            nodes[1].payloads._handler = lambda peer, want: nodes[1].payloads.send(  # type: ignore[attr-defined]
                peer, PayloadResponse(want.id, None, "the engine is away")
            )
            for each in blocks:
                wrong = msgspec.structs.replace(each, gas_used=7)
                nodes[2].blocks[each.block_number] = msgspec.structs.replace(
                    wrong, block_hash=payload_block_hash(wrong)
                )
                nodes[3].blocks[each.block_number] = each
            others = tuple(node.address for node in nodes)
            async with P2pNode(5, rollup, tmp_path, static=others).running() as node:
                assert node.stage.sync is not None
                await node.until(lambda: len(node.stage.sync._planner._peers) == 4)  # type: ignore[union-attr]
                top = blocks[-1]
                want = UnsafeBlocksRequest(0, GapEnd(top.block_number, top.block_hash, top.parent_hash))

                def complete() -> bool:
                    return {each.block_number for each in node.arrived} == set(range(1, 8))

                async with asyncio.timeout(25):
                    while not complete():
                        node.engine.send(want)
                        await asyncio.sleep(1.0)
                assert {each.block_hash for each in node.arrived} == {each.block_hash for each in blocks[:7]}
                scores = node.stage.scores.app
                liar = nodes[2].stage.host.peer_id
                assert scores.counts(nodes[1].stage.host.peer_id).error_responses > 0
                assert scores.counts(liar).rejected_payloads > 0 and scores.score(liar) < 0
                assert scores.counts(nodes[0].stage.host.peer_id).error_responses == 0

    play(scene)


@pytest.mark.parametrize("request_bytes", [b"", bytes(7)])
def test_a_request_cut_short_is_told_of_an_unknown_error(tmp_path: Path, request_bytes: bytes) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with (
            P2pNode(1, rollup, tmp_path).running() as server,
            P2pNode(2, rollup, tmp_path, static=(server.address,)).running() as node,
        ):
            await node.until(lambda: node.stage.host.peers())
            host = node.stage.host
            _, stream = await host.open_stream(host.peers()[0], sync_wire.protocols(901))
            await stream.write(request_bytes)
            stream.close()
            assert await stream.read_all(9) == bytes([sync_wire.ResultCode.UNKNOWN_ERROR])
            await server.until(lambda: server.counted("op_node_default_p2p_req_total{") == 1)

    play(scene)


def test_without_the_sync_protocol_nothing_is_asked(tmp_path: Path) -> None:
    async def scene() -> None:
        async with P2pNode(1, chain_of_now(), tmp_path, sync_req_resp=False).running() as node:
            node.engine.send(UnsafeBlocksRequest(0, GapEnd(9, b"\x01" * 32, b"\x02" * 32)))
            assert not [name for name in (await node.call("self"))["protocols"] if "payload_by_number" in name]
            assert node.stage.sync is None

    play(scene)


def test_what_breaks_a_stream_is_mended(tmp_path: Path) -> None:
    """Both gossip streams are cut again and again; the nodes greet each other anew, and blocks go on."""

    async def scene() -> None:
        rollup = chain_of_now()
        async with (
            P2pNode(1, rollup, tmp_path, sequencer_key=KEY).running() as source,
            P2pNode(2, rollup, tmp_path, static=(source.address,)).running() as node,
        ):
            for number in (1, 2):
                await source.in_mesh()
                await node.in_mesh()
                assert await source.publish(now_block(number)) is None
                await node.until(lambda number=number: len(node.arrived) == number)
                inbound = node.stage.gossip._inbound[source.stage.host.peer_id]
                inbound.reset()
                await source.until(lambda: not source.stage.gossip.mesh(time.time()))
            assert len(node.stage.host.peers()) == 1, "the connection was kept"

    play(scene)


def test_discovery_brings_peers_together(tmp_path: Path) -> None:
    """Three nodes know only the first by its record; the second and third find each other."""

    async def scene() -> None:
        rollup, udp = chain_of_now(), free_udp_port()
        options: dict[str, Any] = {"no_discovery": False}
        async with P2pNode(1, rollup, tmp_path, listen_udp=udp, **options).running() as first:
            boot = (await first.call("self"))["ENR"]
            assert boot.startswith("enr:")
            options["bootnodes"] = (boot,)
            async with (
                P2pNode(2, rollup, tmp_path, **options).running() as second,
                P2pNode(3, rollup, tmp_path, **options).running() as third,
            ):
                for node, others in ((second, (first, third)), (third, (first, second))):
                    async with asyncio.timeout(30):
                        while True:
                            found = (await node.call("peers", True))["peers"]
                            if {other.peer for other in others} <= set(found):
                                break
                            await asyncio.sleep(0.2)
                peer = (await second.call("peers", False))["peers"][third.peer]
                assert peer["ENR"].startswith("enr:") and peer["chainID"] == 901
                table = await second.call("discoveryTable")
                assert boot in table and (await second.call("peerStats"))["table"] == len(table)
                diagnosis = await second.call("diagnosis")
                assert diagnosis["discovery"]["nodes"]["ours"] >= 1

    play(scene)


def free_udp_port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_calls_of_operators(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with P2pNode(1, rollup, tmp_path).running() as node, P2pNode(2, rollup, tmp_path).running() as other:
            own = await node.call("self")
            assert own["peerID"] == node.peer and own["addresses"] == [node.address] and own["chainID"] == 901
            assert len(own["nodeID"]) == 64 and own["ENR"] == ""
            assert await node.call("discoveryTable") == (-32000, "discovery disabled")
            assert await node.call("connectPeer", "/ip4/1.2.3.4") == (
                -32000,
                "bad peer address: address, TCP port and peer id are needed, as /ip4/../tcp/../p2p/..",
            )
            assert (await node.call("connectPeer", "nonsense"))[1].startswith("bad peer address: ")
            assert await node.call("connectPeer", other.address) is None
            assert (await node.call("peerStats"))["connected"] == 1
            assert await node.call("protectPeer", other.peer) is None
            peers = await node.call("peers", True)
            assert peers["peers"][other.peer]["protected"] and peers["peers"][other.peer]["direction"] == 2
            assert await node.call("unprotectPeer", other.peer) is None
            for kind, subject, shown in (
                ("Peer", other.peer, other.peer),
                ("Addr", "10.1.2.3", "10.1.2.3"),
                ("Subnet", "10.0.0.0/8", {"IP": "10.0.0.0", "Mask": "/wAAAA=="}),
            ):
                assert await node.call(f"block{kind}", subject) is None
                assert await node.call(f"listBlocked{kind}s") == [shown]
            peers = await node.call("peers", True)
            assert peers["totalConnected"] == 1, "blocking closes no connection"
            assert (peers["bannedPeers"], peers["bannedIPS"]) == ([other.peer], ["10.1.2.3"])
            assert await node.call("disconnectPeer", other.peer) is None
            assert await node.call("listBlockedPeers") == [], "and unblocks it"
            await node.until(lambda: node.status is not None and node.status.connected == 0)
            assert other.peer not in (await node.call("peers", False))["peers"]
            for kind, subject in (("Addr", "10.1.2.3"), ("Subnet", "10.0.0.0/8")):
                assert await node.call(f"unblock{kind}", subject) is None
                assert await node.call(f"listBlocked{kind}s") == []
            assert await node.call("blockPeer", "xyz") == (
                -32602,
                "invalid argument 0: failed to parse peer ID: 'xyz' is not a peer id: peer id has a wrong length",
            )
            assert (await node.call("nothing"))[0] == -32602
            refused = await node.call("connectPeer", other.address.replace("127.0.0.1", "192.0.2.1"))
            assert "outside p2p.netrestrict" in refused[1]

    play(scene)


def test_a_blocked_network_cuts_a_node_off(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        async with (
            P2pNode(1, rollup, tmp_path).running() as node,
            P2pNode(2, rollup, tmp_path, static=(node.address,)).running() as other,
        ):
            await node.until(lambda: node.stage.host.peers())
            await node.call("blockSubnet", "127.0.0.0/8")
            await node.call("disconnectPeer", other.peer)
            await asyncio.sleep(1.5)
            assert not node.stage.host.peers() and not other.stage.host.peers()
            await node.call("unblockSubnet", "127.0.0.0/8")
            await node.until(lambda: node.stage.host.peers())

    play(scene)


def test_a_port_that_is_taken_is_waited_for(tmp_path: Path) -> None:
    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            node = P2pNode(1, chain_of_now(), tmp_path, listen_tcp=port)
            await node.stage.start()
            assert not node.stage.host.port
            with pytest.raises(Exception, match=f"cannot listen for peers on 127.0.0.1:{port}: .*already in use"):
                await node.stage._open()
        async with node.running():
            await node.until(lambda: node.stage.host.port == port)
            assert (await node.call("diagnosis"))["is_listening"]

    play(scene)


def test_a_peer_store_that_cannot_be_used_costs_memory_alone(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a text of the user's")

    async def scene() -> None:
        async with P2pNode(1, chain_of_now(), tmp_path, peerstore_path=str(tmp_path / "store")).running() as node:
            await node.until(lambda: node.health)
            assert node.health is not None and "is not a peer store: give another path" in node.health[0]
            assert (await node.call("peerStats"))["connected"] == 0

    play(scene)
    assert (tmp_path / "store").read_text() == "a text of the user's"


def test_scores_and_bans_outlive_the_process(tmp_path: Path) -> None:
    rollup = chain_of_now()
    options: dict[str, Any] = {"peerstore_path": str(tmp_path / "store"), "ban_threshold": -10.0}

    async def scene() -> None:
        async with P2pNode(2, rollup, tmp_path).running() as other:
            async with P2pNode(1, rollup, tmp_path, **options).running() as node:
                assert await node.call("connectPeer", other.address) is None
                peer = other.stage.host.peer_id
                await node.until(lambda: peer in node.stage.scores.peers())
                node.stage.scores.app.rejected_payload(peer, time.monotonic())
                node.stage.keeper.save()
                await node.until(lambda: not node.stage.host.peers())
                assert (await node.call("peerStats"))["banned"] == 1
                assert list((await node.call("diagnosis"))["bans"]) == [other.peer]
                assert "peer banned" in (await node.call("connectPeer", other.address))[1]
            async with P2pNode(1, rollup, tmp_path, **options).running() as node:
                assert "peer banned" in (await node.call("connectPeer", other.address))[1]
                kept = node.stage.store.scores(peer)
                assert kept is not None and kept.req_resp.rejected_payloads > 0.9 and kept.gossip.total < -10
                assert await node.call("unblockPeer", other.peer) is None, "lifts the ban as op-node does"
                assert node.stage.host.refuses_peer(peer) is None and node.stage.store.load_gate().peer_bans == {}
                assert node.counted("op_node_default_p2p_peer_unbans") == 1

    play(scene)


def test_a_diagnosis_names_what_matters(tmp_path: Path) -> None:
    async def scene() -> None:
        rollup = chain_of_now()
        nobody = "/ip4/127.0.0.1/tcp/1/p2p/16Uiu2HAmEWQnHq2jLKJypwVnVoQeFCULuyop6atvq2eWjYSUjzNi"
        options: dict[str, Any] = {"no_discovery": False, "static": (nobody,), "sequencer_key": KEY}
        async with P2pNode(2, rollup, tmp_path, **options).running() as node:
            await node.until(lambda: node.stage.host.dialer.problems)
            found = await node.call("diagnosis")
            assert (found["peer"], found["chain_id"], found["is_listening"]) == (node.peer, 901, True)
            assert list(found["dial_problems"].values()) == ["/ip4/127.0.0.1/tcp/1: Connection refused"]
            assert found["static_missing"] == list(found["dial_problems"])
            assert (found["inbound"], found["outbound"], found["inbound_ever"]) == (0, 0, 0)
            assert found["gossip"]["signer"] == found["gossip"]["own_signer"] == f"0x{SIGNER.address.hex()}"
            assert found["gossip"]["low"] == 6 and found["gossip"]["accepted_ago"] is None
            assert found["discovery"]["ip"] == "127.0.0.1" and found["discovery"]["tcp"] == node.stage.host.port
            assert found["problems"] == [] and found["departed"] == []

    play(scene)


def test_many_peers_of_one_machine_are_no_crowd() -> None:
    """Only other machines are watched for many peers at one address."""
    from rollup_node.stages.p2p.process.stage import is_own_machine

    assert is_own_machine("127.0.0.1") and is_own_machine("::1") and is_own_machine("::ffff:127.0.0.2")
    assert not is_own_machine("10.0.0.1")
    record = LocalRecord(b"\x01" * 32, Advertised(901, parse_ip("127.0.0.1"), 1, 2), 5)
    assert record.record.text.startswith("enr:")
