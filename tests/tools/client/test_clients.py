"""The client with the node's own RPC server: typed results, sync and async."""

import asyncio
import re
import subprocess
import sys
from importlib.util import find_spec
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
from rollup_node.stages.p2p.peering.peer_info import Connectedness, IpNet, PeerDump, PeerInfo, PeerStats
from rollup_node.stages.p2p.storage.peer_record import PeerScores
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.rpc.process.methods import METHODS
from tests.support.rpc import harness as rpc_harness
from tests.support.rpc.harness import L2, ROLLUP, RpcHarness, RunWithRpc

pytestmark = pytest.mark.skipif(
    find_spec("web3") is None, reason="web3 is not installed: pip install 'rollup-node[client]'"
)
SECRET = b"\x07" * 32
PEER = PeerInfo(
    peerID="16Uiu2HAm",
    nodeID="00" * 32,
    userAgent="rollup-node",
    protocolVersion="",
    ENR="",
    addresses=("/ip4/127.0.0.1/tcp/1",),
    protocols=None,
    connectedness=Connectedness.CONNECTED,
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


def answer(request: Any) -> Any:
    """What the engine process answers."""
    if isinstance(request, OutputRequest):
        return OutputResponse(request.id, None, L2, b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32, None)
    if isinstance(request, SafeHeadRequest):
        return SafeHeadResponse(request.id, None, L2.l1_origin, L2.id)
    return ControlResponse(request.id, "sequencer already running", None)


def names(modules: dict[str, Any]) -> set[str]:
    """The methods that modules call."""
    members = (vars(module).values() for module in modules.values())
    return {each.json_rpc_method for found in members for each in found if hasattr(each, "json_rpc_method")}


def test_every_method_of_the_namespaces_is_there() -> None:
    from rollup_node.tools.client.clients import ASYNC_MODULES, MODULES

    expected = {method.name for method in METHODS if method.namespace in MODULES}
    assert names(MODULES) == names(ASYNC_MODULES) == expected
    assert {vars(module)["is_async"] for module in ASYNC_MODULES.values()} == {True}


def test_the_optimism_namespace(with_rpc: RunWithRpc) -> None:
    from web3.exceptions import Web3RPCError

    from rollup_node.tools.client.clients import AsyncRollupClient, RollupClient

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = answer
        await rpc.until_ready()
        client = RollupClient(rpc.url)
        async with AsyncRollupClient(rpc.url) as awaited:
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

    with_rpc(scenario, safedb=True)


def test_the_admin_namespace_with_a_token(with_rpc: RunWithRpc) -> None:
    from web3.exceptions import Web3RPCError

    from rollup_node.tools.client.clients import AsyncRollupClient, RollupClient

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = answer
        await rpc.until_ready()
        async with AsyncRollupClient(rpc.url, jwt_secret=SECRET) as client, AsyncRollupClient(rpc.url) as stranger:
            assert await client.admin.sequencer_active() is True
            assert await client.admin.conductor_enabled() is False
            with pytest.raises(Web3RPCError, match="already running"):
                await client.admin.start_sequencer(L2.hash)
            assert rpc.control_requests[-1].head == L2.hash
            with pytest.raises(Web3RPCError, match="unknown level"):
                await asyncio.to_thread(RollupClient(rpc.url, jwt_secret=SECRET).admin.set_log_level, "loud")
            with pytest.raises(Web3RPCError, match="unauthorized"):
                await stranger.admin.sequencer_active()

    with_rpc(scenario, jwt_secret=SECRET)


def test_the_opp2p_namespace(with_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch) -> None:
    from rollup_node.tools.client.clients import AsyncRollupClient, RollupClient
    from rollup_node.tools.client.results import ResultError

    results = {"self": PEER, "peers": PEERS, "peerStats": STATS, "listBlockedSubnets": PEERS.bannedSubnets}
    asked = []

    def respond(request: PeerRequest) -> PeerResponse:
        asked.append((request.method, request.argument))
        encoded = msgspec.json.encode(results.get(request.method))
        return PeerResponse(request.id, encoded, None, -32000)

    monkeypatch.setattr(rpc_harness, "peer_response", respond)

    async def scenario(rpc: RpcHarness) -> None:
        await rpc.until_ready()
        async with AsyncRollupClient(rpc.url) as client:
            assert await client.opp2p.self_info() == PEER
            assert await client.opp2p.peers(True) == PEERS
            assert await client.opp2p.peer_stats() == STATS
            assert await asyncio.to_thread(RollupClient(rpc.url).opp2p.peers, False) == PEERS
            assert await client.opp2p.list_blocked_subnets() == list(PEERS.bannedSubnets)
            await client.opp2p.block_subnet(ip_network("10.0.0.0/8"))
            await client.opp2p.block_addr(ip_address("10.0.0.1"))
            await client.opp2p.connect_peer("/ip4/127.0.0.1/tcp/1/p2p/16Uiu2")
            with pytest.raises(ResultError, match="unexpected result"):
                await client.opp2p.discovery_table()
        assert asked[-4:-1] == [
            ("blockSubnet", "10.0.0.0/8"),
            ("blockAddr", "10.0.0.1"),
            ("connectPeer", "/ip4/127.0.0.1/tcp/1/p2p/16Uiu2"),
        ]

    with_rpc(scenario, p2p=True)


def test_the_modules_fit_any_web3() -> None:
    from web3 import Web3

    from rollup_node.tools.client.clients import MODULES
    from rollup_node.tools.client.modules import Optimism

    attached: Any = Web3(external_modules=MODULES)
    assert isinstance(attached.optimism, Optimism)


def test_the_node_does_not_import_it() -> None:
    code = (
        "import sys, rollup_node.node.cli, rollup_node.stages.p2p.process.stage, rollup_node.stages.rpc.process.stage;"
    )
    code += "print(sorted({'web3', 'eth_account'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"


def test_the_examples_of_the_documentation(with_rpc: RunWithRpc, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[3] / "docs" / "python-client.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = answer
        await rpc.until_ready()
        for block in blocks:
            await asyncio.to_thread(exec, block, {"URL": rpc.url})

    with_rpc(scenario)
    first, root, sequencing, version = capsys.readouterr().out.splitlines()
    assert first.startswith("safe ") and first.endswith("of 20 with L1 up to 10")
    assert (root, sequencing) == (f"output root 0x{'0a' * 32}", "sequencing True")
    assert version == "v1.2.3-dev at 20"
