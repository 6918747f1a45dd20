"""The diagnosis of a whole p2p process. The methods opp2p_* of a whole p2p process [RPC67 to RPC84]."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.config import RollupConfig
from tests.support.p2p.blocks import SIGNER
from tests.support.p2p.nodes import KEY, P2pNode


@pytest.mark.condition("C7")
async def test_diagnosis(rollup: RollupConfig, tmp_path: Path) -> None:
    unreachable = "/ip4/127.0.0.1/tcp/1/p2p/16Uiu2HAmEWQnHq2jLKJypwVnVoQeFCULuyop6atvq2eWjYSUjzNi"
    options: dict[str, Any] = {"no_discovery": False, "static": (unreachable,), "sequencer_key": KEY}
    async with P2pNode(2, rollup, tmp_path, **options).running() as node:
        await node.until(lambda: node.stage.host.dialer.last_errors)
        await node.until(lambda: node.stage.signers.current)
        result = await node.call("diagnosis")
        assert (result["peer"], result["chain_id"], result["is_listening"]) == (node.peer, 901, True)
        assert list(result["dial_problems"].values()) == ["/ip4/127.0.0.1/tcp/1: Connection refused"]
        assert result["static_missing"] == list(result["dial_problems"])
        assert (result["inbound"], result["outbound"], result["inbound_ever"]) == (0, 0, 0)
        assert result["gossip"]["signer"] == result["gossip"]["own_signer"] == f"0x{SIGNER.address.hex()}"
        assert result["gossip"]["low"] == 6 and result["gossip"]["accepted_ago"] is None
        assert result["discovery"]["ip"] == "127.0.0.1" and result["discovery"]["tcp"] == node.stage.host.port
        assert result["problems"] == [] and result["departed"] == []


async def test_opp2p_methods(rollup: RollupConfig, tmp_path: Path) -> None:
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
            "invalid argument 0: failed to parse peer ID: 'xyz' is not a peer id such as 16Uiu2HA... (53 characters):"
            " peer id has a wrong length",
        )
        assert (await node.call("nothing"))[0] == -32602
        refused = await node.call("connectPeer", other.address.replace("127.0.0.1", "192.0.2.1"))
        assert "outside p2p.netrestrict" in refused[1]
