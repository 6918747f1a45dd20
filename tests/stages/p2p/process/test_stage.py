"""Whole p2p processes over real sockets: the signer, discovery, scores and bans, and errors at the start."""

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.messages.l1 import RuntimeConfig, RuntimeConfigs
from rollup_node.stages.p2p.addresses.multiaddr import tcp_multiaddr
from rollup_node.stages.p2p.peering.io import peer_manager
from rollup_node.stages.p2p.peering.io.port_mapper import PortMapper
from rollup_node.stages.p2p.storage.peer_record import PeerScores
from rollup_node.stages.protocol.config import RollupConfig
from tests.support.p2p.blocks import SIGNER
from tests.support.p2p.nodes import KEY, P2pNode, chain_of_now, meshed_pair, now_block


@pytest.mark.option("p2p.sequencer.key")
async def test_a_signer_change_is_followed(rollup: RollupConfig, tmp_path: Path) -> None:
    async with meshed_pair(rollup, tmp_path, sequencer_key=KEY) as (source, node):
        await node.until(lambda: node.stage.signers.current == SIGNER.address)
        chain = rollup.l2_chain_id
        node.l1.set(RuntimeConfigs({chain: RuntimeConfig(b"\x01" * 20), chain + 1: RuntimeConfig(b"\x02" * 20)}))
        await node.until(lambda: node.stage.signers.current == b"\x01" * 20)
        assert await source.publish(now_block(1)) is None
        await node.until(lambda: len(node.received_blocks) == 1)
        node.set_signer(bytes(20))
        await node.until(lambda: node.stage.signers.current is None)
        assert await source.publish(now_block(2)) is None
        await node.until(lambda: node.stage.gossip.failures["no_signer"] == 1)
        node.set_signer(SIGNER.address)
        await node.until(lambda: node.stage.signers.current == SIGNER.address)
        assert await source.publish(now_block(3)) is None
        await node.until(lambda: len(node.received_blocks) == 2)
        assert node.received_blocks[-1].block_number == 3


async def test_discovery_connects_peers(rollup: RollupConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes know only the first by its record; the second and third find each other."""
    monkeypatch.setattr(peer_manager, "DIAL_FAST_INTERVAL", 0.5)
    options: dict[str, Any] = {"no_discovery": False}
    async with P2pNode(1, rollup, tmp_path, **options).running() as first:
        boot = (await first.call("self"))["ENR"]
        assert boot.startswith("enr:")
        options["bootnodes"] = (boot,)
        async with (
            P2pNode(2, rollup, tmp_path, **options).running() as second,
            P2pNode(3, rollup, tmp_path, **options).running() as third,
        ):
            for node, others in ((second, (first, third)), (third, (first, second))):
                await node.wait_for_peers(*others)
            host, other = second.stage.host, third.stage.host
            assert host.peerstore.addresses(other.peer_id)[0] == tcp_multiaddr("127.0.0.1", other.port)
            assert host.external_address == tcp_multiaddr("127.0.0.1", host.port)
            await second.until(lambda: other.peer_id in host.connection_manager.preferred)
            peer = (await second.call("peers", False))["peers"][third.peer]
            assert peer["ENR"].startswith("enr:") and peer["chainID"] == 901
            table = await second.call("discoveryTable")
            assert boot in table and (await second.call("peerStats"))["table"] == len(table)
            diagnosis = await second.call("diagnosis")
            assert diagnosis["discovery"]["nodes"]["ours"] >= 1


@pytest.mark.option("p2p.nat")
async def test_ports_are_mapped_while_it_runs(
    rollup: RollupConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mapped = asyncio.Event()

    async def step(_: PortMapper) -> float:
        mapped.set()
        return 600.0

    monkeypatch.setattr(PortMapper, "step", step)
    async with P2pNode(1, rollup, tmp_path, nat=True).running():
        async with asyncio.timeout(20.0):
            await mapped.wait()


async def test_listening_is_retried_while_the_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = P2pNode(1, chain_of_now(), tmp_path, listen_tcp=port)
        await node.stage.start()
        assert not node.stage.host.port
        with pytest.raises(Exception, match=f"cannot listen for peers on 127.0.0.1:{port}: .*already in use"):
            await node.stage.periodic_tasks[0].step()
    async with node.running():
        await node.until(lambda: node.stage.host.port == port)
        assert (await node.call("diagnosis"))["is_listening"]


@pytest.mark.option("p2p.peerstore.path")
async def test_an_unusable_peerstore_is_replaced_by_memory_and_without_signed_blocks_none_is_signed(
    tmp_path: Path,
) -> None:
    files = [tmp_path / "store", tmp_path / "store_signed_blocks"]
    for file in files:
        file.write_text("a text of the user's")
    options: dict[str, Any] = {"peerstore_path": str(files[0]), "sequencer_key": KEY}
    async with P2pNode(1, chain_of_now(), tmp_path, **options).running() as node:
        await node.until(lambda: node.health)
        assert node.health is not None and "is no peer store: give another path" in node.health[0]
        assert "is no file of signed blocks: give another path" in node.health[1]
        assert (await node.call("peerStats"))["connected"] == 0
        error = await node.publish(now_block(1))
        assert error == "the file of signed blocks cannot be used, so that no block is signed"
    assert [file.read_text() for file in files] == ["a text of the user's"] * 2


async def test_scores_and_bans_survive_a_restart(rollup: RollupConfig, tmp_path: Path) -> None:
    options: dict[str, Any] = {"peerstore_path": str(tmp_path / "store"), "ban_threshold": -10.0}
    async with P2pNode(2, rollup, tmp_path).running() as other:
        async with P2pNode(1, rollup, tmp_path, **options).running() as node:
            assert await node.call("connectPeer", other.address) is None
            peer = other.stage.host.peer_id
            await node.until(lambda: peer in node.stage.scorer.peers())
            node.stage.scorer.application.on_rejected_payload(peer, time.monotonic())
            node.stage.score_service.save()
            await node.until(lambda: not node.stage.host.peers())
            assert (await node.call("peerStats"))["banned"] == 1
            assert list((await node.call("diagnosis"))["bans"]) == [other.peer]
            assert "peer banned" in (await node.call("connectPeer", other.address))[1]
        async with P2pNode(1, rollup, tmp_path, **options).running() as node:
            assert "peer banned" in (await node.call("connectPeer", other.address))[1]
            kept = node.stage.peerstore.record(peer, PeerScores)
            assert kept is not None and kept.req_resp.rejected_payloads > 0.9 and kept.gossip.total < -10
            assert await node.call("unblockPeer", other.peer) is None, "lifts the ban as op-node does"
            assert node.stage.host.intercept_peer(peer) is None and node.stage.peerstore.load_gater().peer_bans == {}
            assert node.metric_sum("op_node_default_p2p_peer_unbans") == 1
