"""The `opstack` namespace over HTTP, with an engine process behind it [RPC61 to RPC66]."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import ClientSession

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.control import BuildResponse, ControlResponse, SealBlockRequest
from rollup_node.stages.protocol.engine_json import attributes_to_json, envelope_from_json, envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.stages.rpc.config import RpcConfig
from rollup_node.stages.rpc.process.methods import METHODS
from rollup_node.stages.rpc.process.stage import build
from tests.support.chains.chain_fixture import ChainFixture, make_rollup
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.foreign.op_node_types import TEST_SEQUENCER, check_result
from tests.support.p2p.blocks import block
from tests.support.rpc.harness import RpcHarness, RunWithRpc

INFO = {"id": "0x0102030405060708", "timestamp": 7}


def test_the_namespace_is_off_by_default(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        for method in (each.name for each in METHODS if each.namespace == "opstack"):
            text = f"the method {method} does not exist/is not available"
            assert await rpc.call(method) == (-32601, text)
        assert "opstack" not in await rpc.call("rpc_modules")

    with_rpc(scenario)


def test_errors_keep_their_codes(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: BuildResponse(request.id, "unknown payload", -40120)
        assert await rpc.call("opstack_sealBlockV1", INFO) == (-40120, "unknown payload")
        assert await rpc.call("opstack_cancelBlockV1", {}) == (-40120, "unknown payload")
        assert rpc.control_requests[0] == SealBlockRequest(1, bytes(range(1, 9)), 7, False)
        assert rpc.control_requests[1] == SealBlockRequest(2, bytes(8), 0, True)
        rpc.on_control = lambda request: ControlResponse(request.id, None, None)
        assert await rpc.call("opstack_sealBlockV1", INFO) == (-32000, "the engine process gave no answer to this")
        assert "opstack" in await rpc.call("rpc_modules")

    with_rpc(scenario, sequencer_api=True)


@pytest.mark.parametrize(
    ("method", "params", "text"),
    [
        ("sealBlockV1", [3], "invalid argument 0: json: cannot unmarshal number into Go value of type eth.PayloadInfo"),
        ("sealBlockV1", [{"id": "0x01"}], "invalid argument 0: hex string has length 2, want 16 for engine.PayloadID"),
        ("sealBlockV1", [{"timestamp": "0x1"}], "invalid argument 0: json: cannot unmarshal string into Go value"),
        ("openBlockV1", [{"number": -1}, {}], "invalid argument 0: json: cannot unmarshal number into Go value"),
        ("openBlockV1", [{}, {}], "invalid argument 1: timestamp: "),
        ("openBlockV1", [{}], "missing value for required argument 1"),
        ("commitBlockV1", [{"signature": "0x00"}], "invalid argument 0: hex string has length 2, want 130 for"),
        ("commitBlockV1", [{}], "invalid argument 0: expected an object as payload envelope"),
    ],
)
def test_malformed_parameters(with_rpc: RunWithRpc, method: str, params: list[Any], text: str) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        code, message = await rpc.call(f"opstack_{method}", *params)
        assert code == -32602 and message.startswith(text)

    with_rpc(scenario, sequencer_api=True)


def test_a_signed_block_is_published(with_rpc: RunWithRpc) -> None:
    """[RPC65]"""
    signed = {"envelope": envelope_to_json(block()), "signature": "0x" + "07" * 65}

    async def scenario(rpc: RpcHarness) -> None:
        check_result("opstack_publishBlockV1", await rpc.call("opstack_publishBlockV1", signed))
        (request,) = rpc.signed_blocks
        assert request.payload == block() and request.signature == b"\x07" * 65
        rpc.publish_error = "peers would not accept the block"
        assert await rpc.call("opstack_publishBlockV1", signed) == (-32000, rpc.publish_error)

    with_rpc(scenario, sequencer_api=True, p2p=True)


def test_a_node_without_p2p_publishes_nothing(with_rpc: RunWithRpc) -> None:
    async def scenario(rpc: RpcHarness) -> None:
        signed = {"envelope": envelope_to_json(block())}
        assert await rpc.call("opstack_publishBlockV1", signed) == (-32000, "P2P not enabled")

    with_rpc(scenario, sequencer_api=True)


@pytest.mark.option("experimental.sequencer-api")
def test_a_block_is_built_and_committed_over_http(tmp_path: Path) -> None:
    """From the HTTP request to the Engine API and back; results have op-node's types."""
    chain = ChainFixture(make_rollup())
    engine = FakeExecutionEngine(chain)
    engine.head = chain.genesis.hash
    called: set[str] = set()

    async def scenario() -> None:
        async with engine.serving(), EngineNode(chain, engine, tmp_path).running() as node, ClientSession() as http:
            config = RpcConfig(
                *("127.0.0.1", 0, False, "v", False, "", 0, str(tmp_path), chain.rollup), sequencer_api=True
            )
            stage = build(config, node.buses["rpc"], Meter("rpc"))
            await stage.start()

            async def call(method: str, *params: Any) -> Any:
                name = f"opstack_{method}BlockV1"
                body = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
                headers = {"Content-Type": "application/json"}
                url = f"http://127.0.0.1:{stage.rpc.port}/"
                async with http.post(url, data=orjson.dumps(body), headers=headers) as response:
                    answer = orjson.loads(await response.read())
                if "error" not in answer:
                    check_result(name, answer["result"])
                    called.add(name)
                return answer

            try:
                await node.start()
                attributes = chain.attributes(chain.genesis, 100, [chain.user])
                parent = {"hash": to_hex(chain.genesis.hash), "number": 0}
                info = (await call("open", parent, attributes_to_json(attributes)))["result"]
                assert info["timestamp"] == attributes.timestamp and len(info["id"]) == 18
                envelope = (await call("seal", info))["result"]
                payload = envelope_from_json(envelope)
                signed = {"envelope": envelope, "signature": to_hex(bytes(65))}
                assert (await call("commit", signed))["result"] is None
                assert engine.head == payload.block_hash != ZERO_HASH
                lost = msgspec.structs.replace(payload, parent_hash=b"\x09" * 32, block_number=2)
                refused = await call("commit", {**signed, "envelope": envelope_to_json(lost)})
                assert refused["error"]["code"] == -40100 and engine.head == payload.block_hash
                assert (await call("cancel", {"id": "0x" + "99" * 8}))["error"]["code"] == -40120
                parent = {"hash": to_hex(payload.block_hash), "number": 1}
                after = chain.attributes(chain.ref(payload), 100, [chain.user])
                await call("cancel", (await call("open", parent, attributes_to_json(after)))["result"])
                assert called == set(TEST_SEQUENCER) - {"opstack_publishBlockV1"}
            finally:
                await stage.close()

    async def bounded() -> None:
        async with asyncio.timeout(30):
            await scenario()

    asyncio.run(bounded())
