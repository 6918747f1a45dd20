"""The methods of the table, with the processes that answer them."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    OverrideLeaderRequest,
    PostUnsafePayloadRequest,
    ResetDerivationRequest,
    SafeHeadRequest,
    SafeHeadResponse,
    SetRecoverModeRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.rpc.process.methods import METHODS
from tests.support.p2p.blocks import block
from tests.support.rpc.harness import L2, ROLLUP, RpcHarness, RunWithRpc


def test_methods_that_need_no_other_process(with_rpc: RunWithRpc) -> None:
    """[RPC10, RPC24, RPC26 to RPC30, RPC40, RPC49, RPC52, RPC85]"""

    async def scenario(rpc: RpcHarness) -> None:
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
        await rpc.until(lambda: rpc.stage.node.engine is not None and rpc.stage.node.engine.unsafe is None)
        status = await rpc.call("optimism_syncStatus")
        assert (status["unsafe_l2"]["number"], status["finalized_l2"]["number"]) == (0, 20)

    with_rpc(scenario)


def test_a_node_with_a_conductor_says_so(with_rpc: RunWithRpc) -> None:
    """[RPC52]"""

    async def scenario(rpc: RpcHarness) -> None:
        assert await rpc.call("admin_conductorEnabled") is True

    with_rpc(scenario, conductor_enabled=True)


def test_safe_heads_at_l1_blocks(with_rpc: RunWithRpc) -> None:
    """[RPC26, RPC35]: the engine process answers, with op-node's texts."""

    def answer(request: SafeHeadRequest) -> SafeHeadResponse:
        if request.number < 10:
            return SafeHeadResponse(request.id, "not found", L2.l1_origin, L2.id)
        return SafeHeadResponse(request.id, None, L2.l1_origin, L2.id)

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = answer
        assert await rpc.call("optimism_safeHeadAtL1Block", "0xb") == {
            "l1Block": {"hash": to_hex(L2.l1_origin.hash), "number": 10},
            "safeHead": {"hash": to_hex(L2.hash), "number": 20},
        }
        assert await rpc.call("optimism_safeHeadAtL1Block", "0x9") == (-32000, "not found")

    with_rpc(scenario, safedb=True)


@pytest.mark.option("rpc.enable-admin")
def test_admin_methods_are_not_found_unless_enabled(with_rpc: RunWithRpc) -> None:
    """[RPC10, RPC11]"""

    async def scenario(rpc: RpcHarness) -> None:
        for method in METHODS:
            if method.namespace == "admin":
                text = f"the method {method.name} does not exist/is not available"
                assert await rpc.call(method.name) == (-32601, text)
        assert "admin" not in await rpc.call("rpc_modules")

    with_rpc(scenario, enable_admin=False)


def test_sequencer_and_reset_calls_go_to_the_engine_process(with_rpc: RunWithRpc) -> None:
    """[RPC46 to RPC48, RPC51, RPC53, RPC59]"""
    responses: dict[type[Any], Callable[[Any], ControlResponse]] = {
        StartSequencerRequest: lambda request: ControlResponse(request.id, "sequencer already running", None),
        StopSequencerRequest: lambda request: ControlResponse(request.id, None, L2.hash),
        ResetDerivationRequest: lambda request: ControlResponse(request.id, None, None),
        OverrideLeaderRequest: lambda request: ControlResponse(request.id, "sequencer is not enabled", None),
        SetRecoverModeRequest: lambda request: ControlResponse(request.id, None, None),
    }

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: responses[type(request)](request)
        head = "0x" + L2.hash.hex()
        assert await rpc.call("admin_startSequencer", head) == (-32000, "sequencer already running")
        assert await rpc.call("admin_stopSequencer") == head
        assert await rpc.call("admin_resetDerivationPipeline") is None
        assert await rpc.call("admin_setRecoverMode", True) is None
        assert rpc.control_requests[0] == StartSequencerRequest(1, L2.hash)
        assert rpc.control_requests[-1] == SetRecoverModeRequest(4, True)
        assert await rpc.call("admin_overrideLeader") == (-32000, "sequencer is not enabled")
        assert len({request.id for request in rpc.control_requests}) == 5
        responses[OverrideLeaderRequest] = responses[ResetDerivationRequest]
        assert await rpc.call("admin_overrideLeader") is None
        assert (await rpc.call("admin_startSequencer", "0x12"))[0] == -32602

    with_rpc(scenario)


def test_the_sdm_opt_in_goes_to_the_engine_process_and_is_reported(with_rpc: RunWithRpc) -> None:
    """[RPC55, RPC56, RPC59]"""

    async def scenario(rpc: RpcHarness) -> None:
        def show(enabled: bool, sequencer: bool = True) -> None:
            engine = EngineStatus(1, L2, L2, L2, L2, L2, sequencer, True, sdm_opt_in=enabled)
            rpc.status["engine"].set(engine)

        def answer(request: Any) -> ControlResponse:
            show(request.enabled)
            return ControlResponse(request.id, None, None)

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
        rpc.on_control = lambda request: ControlResponse(request.id, "sequencer is not enabled", None)
        assert await rpc.call("admin_setSdmPostExecOptIn", True) == refused
        assert (await rpc.call("admin_setSdmPostExecOptIn", 1))[0] == -32602

    with_rpc(scenario)


def test_the_log_level_is_set_for_all_processes(with_rpc: RunWithRpc) -> None:
    """[RPC54]"""
    shared: list[Level] = []

    async def scenario(rpc: RpcHarness) -> None:
        log.configure("rpc", Level.SILENT, lambda record: None, shared.append)
        assert await rpc.call("admin_setLogLevel", "dbug") is None
        assert shared == [log.configuration().level] == [Level.DEBUG]
        assert await rpc.call("admin_setLogLevel", "loud") == (-32000, "unknown level: loud")
        assert (await rpc.call("admin_setLogLevel", 3))[0] == -32602

    with_rpc(scenario)


def test_output_at_block(with_rpc: RunWithRpc) -> None:
    """[RPC25, RPC31, RPC33, RPC34]"""
    status = EngineStatus(1, L2, L2, L2, L2, L2, False, False)
    found = OutputResponse(0, None, L2, b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32, status)

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: msgspec.structs.replace(
            found, id=request.id, error=None if request.number == 20 else "failed: not found"
        )
        output = await rpc.call("optimism_outputAtBlock", "0x14")
        assert output["outputRoot"] == "0x" + "0a" * 32 and output["blockRef"]["number"] == 20
        assert output["syncStatus"]["safe_l2"]["number"] == 20
        assert rpc.control_requests == [OutputRequest(1, 20)]
        assert await rpc.call("optimism_outputAtBlock", "0x15") == (-32000, "failed: not found")

    with_rpc(scenario)


def test_a_posted_payload_must_have_its_hash(with_rpc: RunWithRpc) -> None:
    """[RPC50, RPC60]"""
    payload = block()
    good = envelope_to_json(payload)
    bad = envelope_to_json(msgspec.structs.replace(payload, block_hash=b"\x01" * 32))

    async def scenario(rpc: RpcHarness) -> None:
        rpc.on_control = lambda request: ControlResponse(request.id, None, None)
        assert await rpc.call("admin_postUnsafePayload", good) is None
        assert rpc.control_requests == [PostUnsafePayloadRequest(1, payload)]
        text = f"payload has bad block hash: 0x{'01' * 32}, actual block hash is: {to_hex(payload.block_hash)}"
        assert await rpc.call("admin_postUnsafePayload", bad) == (-32000, text)
        assert (await rpc.call("admin_postUnsafePayload", {}))[0] == -32602

    with_rpc(scenario)


def test_peer_methods_go_to_the_p2p_process(with_rpc: RunWithRpc) -> None:
    """[RPC67, RPC68, RPC71, RPC72, RPC75, RPC76]"""

    async def scenario(rpc: RpcHarness) -> None:
        await rpc.until_ready()
        assert await rpc.call("opp2p_self") == ["self", ""]
        assert await rpc.call("opp2p_peers", True) == ["peers", "True"]
        assert await rpc.call("opp2p_blockPeer", "16Uiu2") == ["blockPeer", "16Uiu2"]
        net = {"IP": "10.1.2.3", "Mask": "/wAAAA=="}
        assert await rpc.call("opp2p_blockSubnet", net) == ["blockSubnet", "10.0.0.0/8"]
        assert await rpc.call("opp2p_protectPeer", "16Uiu2") == (-32000, "no connection manager")
        assert (await rpc.call("opp2p_blockAddr", "10.0.0.300"))[0] == -32602

    with_rpc(scenario, p2p=True)


def test_without_p2p_its_methods_are_not_found(with_rpc: RunWithRpc) -> None:
    """[RPC10, RPC11]"""

    async def scenario(rpc: RpcHarness) -> None:
        assert (await rpc.call("opp2p_self"))[0] == -32601
        assert "opp2p" not in await rpc.call("rpc_modules")

    with_rpc(scenario)
