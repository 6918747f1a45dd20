"""The methods of the table, with the processes that answer them."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import ClientSession

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ReloadResult
from rollup_node.stages.messages import control
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.engine_json import attributes_to_json, envelope_from_json, envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.stages.rpc import responses
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.stages.rpc.process import methods
from rollup_node.stages.rpc.process.methods import METHODS, reload_options
from rollup_node.stages.rpc.process.stage import build
from tests.support.chains.chain_fixture import ChainFixture, make_rollup
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.foreign.op_node_types import TEST_SEQUENCER, check_result
from tests.support.p2p.blocks import block
from tests.support.rpc.harness import L2, ROLLUP, RunWithRpc


async def test_methods_that_need_no_other_process(running_rpc: RunWithRpc) -> None:
    """[RPC10, RPC24, RPC26 to RPC30, RPC40, RPC49, RPC52, RPC85]"""
    async with running_rpc(conductor_enabled=True) as rpc:
        assert await rpc.call("admin_conductorEnabled") is True
    async with running_rpc() as rpc:
        assert await rpc.call("health_status") == "v1.2.3-dev"
        assert await rpc.call("optimism_rollupConfig") == rollup_config_object(ROLLUP)
        assert await rpc.call("rpc_modules") == dict.fromkeys(
            ("admin", "explain", "health", "optimism", "rpc", "superroot"), "1.0"
        )
        text = "failed to get safe head at l1 block 0x5: safe head database not enabled"
        assert await rpc.call("optimism_safeHeadAtL1Block", "0x5") == (-32000, text)
        assert await rpc.call("optimism_dependencySet") == (-32000, "not found")
        assert await rpc.call("admin_conductorEnabled") is False
        status = await rpc.call("optimism_syncStatus")
        assert status["unsafe_l2"]["number"] == 0
        assert await rpc.call("admin_sequencerActive") is False
        await rpc.until_ready()
        status = await rpc.call("optimism_syncStatus")
        assert status["unsafe_l2"]["number"] == 20 and status["current_l1"]["number"] == 10
        assert await rpc.call("admin_sequencerActive") is True
        rpc.status["engine"].set(EngineStatus(1, None, None, None, None, None, True, True))
        await rpc.until(lambda: rpc.stage.node.seen.engine is not None and rpc.stage.node.seen.engine.unsafe is None)
        status = await rpc.call("optimism_syncStatus")
        assert (status["unsafe_l2"]["number"], status["finalized_l2"]["number"]) == (0, 20)


@pytest.mark.option("rpc.enable-admin")
async def test_the_methods_of_a_namespace_that_is_off_are_not_found(running_rpc: RunWithRpc) -> None:
    """[RPC10, RPC11]"""
    off = [method for method in METHODS if method.namespace in ("admin", "opp2p", "opstack")]
    async with running_rpc(enable_admin=False) as rpc:
        for method in off:
            text = f"the method {method.name} does not exist/is not available"
            assert await rpc.call(method.name) == (-32601, text)
        assert not {method.namespace for method in off} & set(await rpc.call("rpc_modules"))


async def test_sequencer_and_reset_calls_go_to_the_engine_process(running_rpc: RunWithRpc) -> None:
    """[RPC46 to RPC48, RPC51, RPC53, RPC59]"""
    running, disabled = "sequencer already running", "sequencer is not enabled"
    head = to_hex(L2.hash)
    async with running_rpc() as rpc:
        for method, params, response, result, request in (
            ("startSequencer", (head,), (running, None), (-32000, running), control.StartSequencerRequest(1, L2.hash)),
            ("stopSequencer", (), (None, L2.hash), head, control.StopSequencerRequest(2)),
            ("resetDerivationPipeline", (), (None, None), None, control.ResetDerivationRequest(3)),
            ("setRecoverMode", (True,), (None, None), None, control.SetRecoverModeRequest(4, True)),
            ("overrideLeader", (), (disabled, None), (-32000, disabled), control.OverrideLeaderRequest(5)),
            ("overrideLeader", (), (None, None), None, control.OverrideLeaderRequest(6)),
            ("stopSequencer", (), (None, None), to_hex(ZERO_HASH), control.StopSequencerRequest(7)),
        ):
            rpc.on_control = lambda request, response=response: control.ControlResponse(request.id, *response)  # type: ignore[misc]
            assert await rpc.call(f"admin_{method}", *params) == result
            assert rpc.control_requests[-1] == request
        assert (await rpc.call("admin_startSequencer", "0x12"))[0] == -32602


async def test_the_sdm_opt_in_goes_to_the_engine_process_and_is_reported(running_rpc: RunWithRpc) -> None:
    """[RPC55, RPC56, RPC59]"""
    async with running_rpc() as rpc:

        def show(enabled: bool, sequencer: bool = True) -> None:
            engine = EngineStatus(1, L2, L2, L2, L2, L2, sequencer, True, sdm_opt_in=enabled)
            rpc.status["engine"].set(engine)

        def answer(request: Any) -> control.ControlResponse:
            show(request.enabled)
            return control.ControlResponse(request.id, None, None)

        show(False, sequencer=False)
        refused = (-32000, "sequencer is not enabled")
        while await rpc.call("admin_sdmStatus") != refused:
            pass  # until the process has heard of the engine
        rpc.on_control = answer
        for enabled in (True, False):
            assert await rpc.call("admin_setSdmPostExecOptIn", enabled) is None
            assert rpc.control_requests[-1].enabled is enabled
            status = {"postExecOptIn": enabled, "protocolActive": False, "effective": False}
            assert await rpc.call("admin_sdmStatus") == status
        rpc.on_control = lambda request: control.ControlResponse(request.id, "sequencer is not enabled", None)
        assert await rpc.call("admin_setSdmPostExecOptIn", True) == refused
        assert (await rpc.call("admin_setSdmPostExecOptIn", 1))[0] == -32602


async def test_the_log_level_is_set_for_all_processes(running_rpc: RunWithRpc) -> None:
    """[RPC54]"""
    shared: list[Level] = []
    async with running_rpc() as rpc:
        log.configure("rpc", Level.SILENT, lambda record: None, shared.append)
        assert await rpc.call("admin_setLogLevel", "dbug") is None
        assert shared == [log.configuration().level] == [Level.DEBUG]
        assert await rpc.call("admin_setLogLevel", "loud") == (-32000, "unknown level: loud")
        assert (await rpc.call("admin_setLogLevel", 3))[0] == -32602


async def test_outputs_and_safe_heads(running_rpc: RunWithRpc) -> None:
    """[RPC21, RPC25, RPC26, RPC31, RPC33 to RPC35]: the engine process answers, with op-node's texts."""
    status = EngineStatus(1, L2, L2, L2, L2, L2, False, False)
    output_response = control.OutputResponse(0, None, L2, b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32, status)
    async with running_rpc(safedb=True) as rpc:
        rpc.on_control = lambda request: msgspec.structs.replace(
            output_response, id=request.id, error=None if request.number == 20 else "failed: not found"
        )
        output = await rpc.call("optimism_outputAtBlock", "0x14")
        assert output == {
            "version": to_hex(ZERO_HASH),
            "outputRoot": "0x" + "0a" * 32,
            "blockRef": {
                **{"hash": to_hex(L2.hash), "number": 20, "parentHash": to_hex(L2.parent_hash), "timestamp": 200},
                **{"l1origin": {"hash": to_hex(L2.l1_origin.hash), "number": 10}, "sequenceNumber": 2},
            },
            "withdrawalStorageRoot": "0x" + "0c" * 32,
            "stateRoot": "0x" + "0b" * 32,
            "syncStatus": responses.sync_status(None, status, None),
        }
        assert rpc.control_requests == [control.OutputRequest(1, 20)]
        assert await rpc.call("optimism_outputAtBlock", "0x15") == (-32000, "failed: not found")
        rpc.on_control = lambda request: control.SafeHeadResponse(
            request.id, "not found" if request.number < 10 else None, L2.l1_origin, L2.id
        )
        assert await rpc.call("optimism_safeHeadAtL1Block", "0xb") == {
            "l1Block": {"hash": to_hex(L2.l1_origin.hash), "number": 10},
            "safeHead": {"hash": to_hex(L2.hash), "number": 20},
        }
        assert await rpc.call("optimism_safeHeadAtL1Block", "0x9") == (-32000, "not found")


async def test_a_posted_payload_must_have_its_hash(running_rpc: RunWithRpc) -> None:
    """[RPC50, RPC60]"""
    payload = block()
    good = envelope_to_json(payload)
    bad = envelope_to_json(msgspec.structs.replace(payload, block_hash=b"\x01" * 32))
    async with running_rpc() as rpc:
        rpc.on_control = lambda request: control.ControlResponse(request.id, None, None)
        assert await rpc.call("admin_postUnsafePayload", good) is None
        assert rpc.control_requests == [control.PostUnsafePayloadRequest(1, payload)]
        text = f"payload has bad block hash: 0x{'01' * 32}, actual block hash is: {to_hex(payload.block_hash)}"
        assert await rpc.call("admin_postUnsafePayload", bad) == (-32000, text)
        assert (await rpc.call("admin_postUnsafePayload", {}))[0] == -32602


async def test_peer_methods_go_to_the_p2p_process(running_rpc: RunWithRpc) -> None:
    """[RPC67, RPC68, RPC71, RPC72, RPC75, RPC76]"""
    async with running_rpc(p2p=True) as rpc:
        await rpc.until_ready()
        assert await rpc.call("opp2p_self") == ["self", ""]
        assert await rpc.call("opp2p_peers", True) == ["peers", "True"]
        assert await rpc.call("opp2p_blockPeer", "16Uiu2") == ["blockPeer", "16Uiu2"]
        net = {"IP": "10.1.2.3", "Mask": "/wAAAA=="}
        assert await rpc.call("opp2p_blockSubnet", net) == ["blockSubnet", "10.0.0.0/8"]
        assert await rpc.call("opp2p_protectPeer", "16Uiu2") == (-32000, "no connection manager")
        assert (await rpc.call("opp2p_blockAddr", "10.0.0.300"))[0] == -32602


INFO = {"id": "0x0102030405060708", "timestamp": 7}


async def test_errors_keep_their_codes(running_rpc: RunWithRpc) -> None:
    async with running_rpc(sequencer_api=True) as rpc:
        rpc.on_control = lambda request: control.BuildResponse(request.id, "unknown payload", -40120)
        assert await rpc.call("opstack_sealBlockV1", INFO) == (-40120, "unknown payload")
        assert await rpc.call("opstack_cancelBlockV1", {}) == (-40120, "unknown payload")
        assert rpc.control_requests[0] == control.SealBlockRequest(1, bytes(range(1, 9)), 7, False)
        assert rpc.control_requests[1] == control.SealBlockRequest(2, bytes(8), 0, True)
        rpc.on_control = lambda request: control.ControlResponse(request.id, None, None)
        assert await rpc.call("opstack_sealBlockV1", INFO) == (-32000, "the process gave no answer to this")
        assert "opstack" in await rpc.call("rpc_modules")
        code, text = await rpc.call("opstack_openBlockV1", {}, {})
        assert code == -32602 and text.startswith("invalid argument 1: timestamp: ")


async def test_a_signed_block_is_published(running_rpc: RunWithRpc) -> None:
    """[RPC65]"""
    signed = {"envelope": envelope_to_json(block()), "signature": "0x" + "07" * 65}
    async with running_rpc(sequencer_api=True, p2p=True) as rpc:
        check_result("opstack_publishBlockV1", await rpc.call("opstack_publishBlockV1", signed))
        (request,) = rpc.signed_blocks
        assert request.payload == block() and request.signature == b"\x07" * 65
        rpc.publish_error = "peers would not accept the block"
        assert await rpc.call("opstack_publishBlockV1", signed) == (-32000, rpc.publish_error)
    async with running_rpc(sequencer_api=True) as rpc:
        assert await rpc.call("opstack_publishBlockV1", signed) == (-32000, "P2P not enabled")


@pytest.mark.option("experimental.sequencer-api")
async def test_a_block_is_built_and_committed_over_http(tmp_path: Path) -> None:
    """From the HTTP request to the Engine API and back; results have op-node's types."""
    chain = ChainFixture(make_rollup())
    engine = FakeExecutionEngine(chain)
    engine.head = chain.genesis.hash
    called: set[str] = set()

    async with asyncio.timeout(30), engine.serving(), EngineNode(chain, engine, tmp_path).running() as node:
        config = RpcConfig("v", chain.rollup, "127.0.0.1", metrics_dir=str(tmp_path), sequencer_api=True)
        stage = build(RpcProcessConfig({"": config}), node.buses["rpc"], Meter("rpc"))
        await stage.start()

        async def call(method: str, *params: Any) -> Any:
            name = f"opstack_{method}BlockV1"
            body = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
            url = f"http://127.0.0.1:{stage.rpc.port}/"
            async with ClientSession() as http, http.post(url, json=body) as response:
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


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return the signals that would be sent."""
    result: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *arguments: result.append(arguments))
    monkeypatch.setattr(methods, "RELOAD_LOOK_SECONDS", 0.001)
    return result


async def answered(file: Path, *contents: bytes) -> ReloadResult:
    """Return the result while a supervisor writes these contents, one after the other."""
    task = asyncio.create_task(reload_options(str(file)))
    for content in contents:
        await asyncio.sleep(0.01)
        assert not task.done()
        file.write_bytes(content)
    return await task


async def test_the_result_of_a_reload_that_begins_afterwards_is_returned(
    tmp_path: Path, signals: list[tuple[int, int]]
) -> None:
    file, old = tmp_path / "reload.json", ReloadResult(time.monotonic(), error="an earlier one")
    file.write_bytes(msgspec.json.encode(old))
    new = ReloadResult(time.monotonic() + 60, ("l1",), ("l1",), ("workers",))
    assert await answered(file, b"", b"damaged {", msgspec.json.encode(old), msgspec.json.encode(new)) == new
    assert signals == [(os.getppid(), signal.SIGUSR1)]


async def test_a_reload_that_is_refused_or_does_not_end_is_an_error(
    tmp_path: Path, signals: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program without a file for it signals nobody."""
    with pytest.raises(JsonRpcError, match="nothing to read again"):
        await reload_options("")
    assert signals == []
    result = ReloadResult(time.monotonic() + 60, error="file node.toml is not TOML")
    with pytest.raises(JsonRpcError, match=r"reload refused, nothing is changed: file node\.toml is not TOML"):
        await answered(tmp_path / "refused.json", msgspec.json.encode(result))
    monkeypatch.setattr(methods, "RELOAD_SECONDS", 0.02)
    with pytest.raises(JsonRpcError, match="the reload has not ended within"):
        await reload_options(str(tmp_path / "reload.json"))
