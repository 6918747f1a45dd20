"""The client with the node's own RPC server: typed results, sync and async.

web3 is imported by the worker that runs these tests, not by all that collect them."""

import asyncio
import importlib
import re
import subprocess
import sys
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    SafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.p2p import PeerRequest, PeerResponse
from rollup_node.stages.p2p.peering.peer_info import IpNet, PeerDump, PeerInfo, PeerStats
from rollup_node.stages.p2p.storage.peer_record import PeerScores
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.rpc.process.methods import METHODS
from tests.support.rpc import harness as rpc_harness
from tests.support.rpc.harness import L2, ROLLUP, RunWithRpc

SECRET = b"\x07" * 32
PEER = PeerInfo(
    peerID="16Uiu2HAm",
    nodeID="00" * 32,
    userAgent="rollup-node",
    protocolVersion="",
    ENR="",
    addresses=("/ip4/127.0.0.1/tcp/1",),
    protocols=None,
    connectedness=1,
    direction=1,
    protected=False,
    chainID=901,
    latency=5,
    gossipBlocks=True,
    scores=PeerScores(),
)
PEERS = PeerDump(
    totalConnected=1,
    peers={"16Uiu2HAm": PEER},
    bannedPeers=(),
    bannedIPS=("10.0.0.1",),
    bannedSubnets=(IpNet("10.0.0.0", "/wAAAA=="),),
)
STATS = PeerStats(
    connected=1, table=2, blocksTopic=3, blocksTopicV2=4, blocksTopicV3=5, blocksTopicV4=6, banned=7, known=8
)


@pytest.fixture(scope="module")
def clients() -> Any:
    """Return the module of the clients."""
    pytest.importorskip("web3", reason="web3 is not installed: pip install 'rollup-node[client]'")
    return importlib.import_module("rollup_node.tools.client.clients")


def answer(request: Any) -> Any:
    """Return what the engine process answers."""
    if isinstance(request, OutputRequest):
        return OutputResponse(request.id, None, L2, b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32, None)
    if isinstance(request, SafeHeadRequest):
        return SafeHeadResponse(request.id, None, L2.l1_origin, L2.id)
    return ControlResponse(request.id, "sequencer already running", None)


def names(modules: dict[str, Any]) -> set[str]:
    """Return the methods that modules call."""
    classes = (base for module in modules.values() for base in module.__mro__)
    members = (item for base in classes for item in vars(base).values())
    return {item.json_rpc_method for item in members if hasattr(item, "json_rpc_method")}


def test_every_method_of_the_namespaces_is_there(clients: Any) -> None:
    expected = {method.name for method in METHODS if method.namespace in clients.MODULES}
    assert names(clients.MODULES) == names(clients.ASYNC_MODULES) == expected


async def test_the_optimism_namespace(clients: Any, running_rpc: RunWithRpc) -> None:
    from web3.exceptions import Web3RPCError

    async with running_rpc(safedb=True) as rpc:
        rpc.on_control = answer
        await rpc.until_ready()
        client = clients.RollupClient(rpc.url)
        async with clients.AsyncRollupClient(rpc.url) as awaited:
            status = await awaited.optimism.sync_status()
            assert status == await asyncio.to_thread(client.optimism.sync_status)
            unsafe = status.unsafe_l2
            assert (unsafe.number, bytes(unsafe.hash), unsafe.l1_origin.number) == (20, L2.hash, 10)
            assert (unsafe.sequence_number, status.current_l1.number) == (L2.sequence_number, 10)
            output = await awaited.optimism.output_at_block(20)
            assert (bytes(output.output_root), output.block_ref.number) == (b"\x0a" * 32, 20)
            assert bytes(output.state_root) == b"\x0b" * 32
            assert (await asyncio.to_thread(client.optimism.safe_head_at_l1_block, 11)).safe_head.number == 20
            assert await awaited.optimism.rollup_config() == rollup_config_object(ROLLUP)
            assert await awaited.optimism.version() == await asyncio.to_thread(client.optimism.version)
            with pytest.raises(Web3RPCError, match="not found"):
                await awaited.optimism.dependency_set()


async def test_the_admin_namespace_with_a_token(clients: Any, running_rpc: RunWithRpc) -> None:
    from web3.exceptions import Web3RPCError

    async with running_rpc(jwt_secret=SECRET) as rpc:
        rpc.on_control = answer
        await rpc.until_ready()
        secret = {"jwt_secret": SECRET}
        async with clients.AsyncRollupClient(rpc.url, **secret) as client, clients.AsyncRollupClient(rpc.url) as other:
            assert await client.admin.sequencer_active() is True
            assert await client.admin.conductor_enabled() is False
            with pytest.raises(Web3RPCError, match="already running"):
                await client.admin.start_sequencer(L2.hash)
            assert rpc.control_requests[-1].head == L2.hash
            with pytest.raises(Web3RPCError, match="unknown level"):
                await asyncio.to_thread(clients.RollupClient(rpc.url, **secret).admin.set_log_level, "loud")
            with pytest.raises(Web3RPCError, match="unauthorized"):
                await other.admin.sequencer_active()


async def test_the_opp2p_namespace(clients: Any, running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    results = {"self": PEER, "peers": PEERS, "peerStats": STATS, "listBlockedSubnets": PEERS.bannedSubnets}

    def respond(request: PeerRequest) -> PeerResponse:
        encoded = msgspec.json.encode(results.get(request.method))
        return PeerResponse(request.id, encoded, None, -32000)

    monkeypatch.setattr(rpc_harness, "peer_response", respond)
    async with running_rpc(p2p=True) as rpc:
        await rpc.until_ready()
        async with clients.AsyncRollupClient(rpc.url) as client:
            assert await client.opp2p.self_info() == PEER
            assert await client.opp2p.peers(True) == PEERS
            assert await client.opp2p.peer_stats() == STATS
            assert await asyncio.to_thread(clients.RollupClient(rpc.url).opp2p.peers, False) == PEERS
            assert await client.opp2p.list_blocked_subnets() == list(PEERS.bannedSubnets)
            with pytest.raises(clients.ResultError, match="unexpected result"):
                await client.opp2p.discovery_table()


def test_the_node_does_not_import_it() -> None:
    stages = "rollup_node.stages.p2p.process.stage, rollup_node.stages.rpc.process.stage"
    code = f"import sys, rollup_node.node.cli, {stages}; print(sorted({{'web3', 'eth_account'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.usefixtures("clients")
async def test_the_examples_of_the_documentation(running_rpc: RunWithRpc, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "python-client.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    async with running_rpc() as rpc:
        rpc.on_control = answer
        await rpc.until_ready()
        for block in blocks:
            await asyncio.to_thread(exec, block, {"URL": rpc.url})
    first, root, sequencing, version = capsys.readouterr().out.splitlines()
    assert first.startswith("safe ") and first.endswith("of 20 with L1 up to 10")
    assert (root, sequencing) == (f"output root 0x{'0a' * 32}", "sequencing True")
    assert version == "v1.2.3-dev at 20"


HASH = "0x" + "01" * 32
REF = {
    "hash": HASH,
    "number": 7,
    "parentHash": HASH,
    "timestamp": 1700000000,
    "l1origin": {"hash": HASH, "number": 3},
    "sequenceNumber": 2,
}


def test_a_reference_with_a_field_of_a_later_version(clients: Any) -> None:
    from hexbytes import HexBytes
    from web3.datastructures import AttributeDict

    block_hash = HexBytes(HASH)
    result = clients.convert(AttributeDict.recursive(REF | {"later": {"field": [1]}}), clients.L2BlockRef)
    expected = clients.L2BlockRef(block_hash, 7, block_hash, 1700000000, clients.BlockId(block_hash, 3), 2)
    assert result == expected


def test_defaults_and_plain_types(clients: Any) -> None:
    convert, status = clients.convert, clients.SdmStatus
    assert convert({"dependencies": {"901": {}}}, clients.DependencySet).override_message_expiry_window == 0
    result = {"postExecOptIn": True, "protocolActive": False, "effective": False}
    assert convert(result, status) == status(True, False, False)
    assert convert(result | {"activationTime": 7}, status).activation_time == 7
    assert convert(None, type(None)) is None
    assert convert(True, bool) is True


@pytest.mark.parametrize(
    ("value", "shape", "error"),
    [
        ({**REF, "number": "0x7"}, "L2BlockRef", r"Expected `int`, got `str` - at `\$.number`"),
        ({**REF, "hash": 5}, "L2BlockRef", "HexBytes from int"),
        ({**REF, "hash": "0xzz"}, "L2BlockRef", "unexpected result"),
        ({"l1Block": None, "safeHead": None}, "SafeHead", "Expected `object`, got `null`"),
        ("yes", bool, "Expected `bool`"),
        ({}, type(None), "Expected `null`"),
    ],
)
def test_other_shapes(clients: Any, value: Any, shape: Any, error: str) -> None:
    with pytest.raises(clients.ResultError, match=error):
        clients.convert(value, getattr(clients, shape) if isinstance(shape, str) else shape)


def test_bytes_numbers_addresses_and_networks(clients: Any) -> None:
    from web3 import Web3
    from web3.providers.base import BaseProvider

    class RecordingProvider(BaseProvider):
        """Answers null, and keeps what was asked."""

        def __init__(self) -> None:
            super().__init__()
            self.asked: list[tuple[str, Any]] = []

        def make_request(self, method: Any, params: Any) -> Any:
            self.asked.append((method, list(params)))
            return {"jsonrpc": "2.0", "id": 1, "result": None}

    provider = RecordingProvider()
    w3 = Web3(provider)
    admin, opp2p = clients.Admin(w3), clients.Opp2p(w3)
    admin.start_sequencer(b"\x01" * 32)
    admin.set_recover_mode(True)
    admin.set_log_level("debug")
    admin.post_unsafe_payload({"executionPayload": {}})
    opp2p.block_addr(ip_address("::1"))
    opp2p.unblock_addr("10.0.0.1")
    opp2p.block_subnet(ip_network("10.0.0.0/8"))
    opp2p.unblock_subnet(ip_network("fe80::/120"))
    opp2p.connect_peer("/ip4/127.0.0.1/tcp/1/p2p/16Uiu2")
    with pytest.raises(ValueError, match="unexpected result"):
        clients.Optimism(w3).output_at_block(255)
    assert provider.asked == [
        ("admin_startSequencer", ["0x" + "01" * 32]),
        ("admin_setRecoverMode", [True]),
        ("admin_setLogLevel", ["debug"]),
        ("admin_postUnsafePayload", [{"executionPayload": {}}]),
        ("opp2p_blockAddr", ["::1"]),
        ("opp2p_unblockAddr", ["10.0.0.1"]),
        ("opp2p_blockSubnet", [{"IP": "10.0.0.0", "Mask": "/wAAAA=="}]),
        ("opp2p_unblockSubnet", [{"IP": "fe80::", "Mask": "////////////////////AA=="}]),
        ("opp2p_connectPeer", ["/ip4/127.0.0.1/tcp/1/p2p/16Uiu2"]),
        ("optimism_outputAtBlock", ["0xff"]),
    ]
