"""The rpc process over real sockets, with the other processes played by buses (node-behaviour 1.1-1.9)."""

import asyncio
import gzip
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import ClientSession

from rollup_node.stages.derivation.process.drop_buffer import DropBuffer
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.control import (
    ControlResponse,
    OutputRequest,
    OutputResponse,
    ResetDerivationRequest,
    StartSequencerRequest,
    StopSequencerRequest,
)
from rollup_node.stages.messages.derivation import Drop, DropEffect, DropsRequest
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.errors import CriticalError
from rollup_node.stages.rpc.process import http_server as server_http
from rollup_node.stages.rpc.process.methods import METHODS
from tests.support.rpc_world import L1, L2, ROLLUP, World


def test_http_manners(run: Any) -> None:
    async def scene(world: World) -> None:
        assert await world.get("/") == (200, b"")
        assert await world.get("/healthz") == (200, b'{"version":"v1.2.3-dev"}\n')
        assert (await world.get("/healthz/"))[0] == 200
        assert (await world.get("/other"))[0] == 404
        assert (await world.get("/?x=1"))[0] == 415
        for method, expected in (("PUT", 405), ("DELETE", 405), ("OPTIONS", 200)):
            async with world.http.request(method, world.url) as response:
                assert response.status == expected
        assert (await world.post(b"{}", **{"Content-Type": "text/plain"}))[0] == 415
        for kind in ("application/json-rpc", "application/jsonrequest", "application/json; charset=utf-8"):
            assert (await world.post(b"{}", **{"Content-Type": kind}))[0] == 200
        too_long = io.BytesIO(b" " * (5 * 1024 * 1024 + 1))
        assert (await world.post(too_long))[0] == 413

        async def chunks() -> AsyncIterator[bytes]:
            for _ in range(6):
                yield b" " * (1024 * 1024)

        async with world.http.post(world.url, data=chunks(), headers={"Content-Type": "application/json"}) as response:
            assert response.status == 413

    run(scene)


def test_cross_origin_requests(run: Any) -> None:
    async def scene(world: World) -> None:
        asks = {"Origin": "http://x", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "a, b"}
        async with world.http.options(world.url, headers=asks) as response:
            assert response.status == 204
            assert response.headers["Access-Control-Allow-Origin"] == "*"
            assert response.headers["Access-Control-Allow-Methods"] == "POST"
            assert response.headers["Access-Control-Allow-Headers"] == "a, b"
            assert response.headers["Access-Control-Max-Age"] == "600"
        async with world.http.options(world.url, headers={**asks, "Access-Control-Request-Method": "PUT"}) as response:
            assert "Access-Control-Allow-Origin" not in response.headers
        async with world.http.get(world.url + "/healthz", headers={"Origin": "http://x"}) as response:
            assert response.headers["Access-Control-Allow-Origin"] == "*"

    run(scene)


def test_gzip_where_it_is_asked_for(run: Any) -> None:
    async def scene(world: World) -> None:
        async with ClientSession(auto_decompress=False) as plain:
            async with plain.get(world.url + "/healthz", headers={"Accept-Encoding": "gzip"}) as response:
                assert response.headers["Content-Encoding"] == "gzip"
                assert gzip.decompress(await response.read()).startswith(b'{"version"')
            async with plain.get(world.url + "/healthz", headers={"Accept-Encoding": "identity"}) as response:
                assert "Content-Encoding" not in response.headers

    run(scene)


def test_json_rpc_errors_and_batches(run: Any) -> None:
    async def scene(world: World) -> None:
        assert orjson.loads((await world.post(b"{"))[1]) == {
            "jsonrpc": "2.0",
            "id": None,
            "error": {"code": -32700, "message": "parse error"},
        }
        assert orjson.loads((await world.post(b"[]"))[1])["error"]["code"] == -32600
        version = {"jsonrpc": "2.0", "id": "a", "method": "optimism_version"}
        silent = {"jsonrpc": "2.0", "method": "optimism_version"}
        batch = [version, silent, {"x": 1}, {**version, "id": 2, "method": "eth_call"}]
        answers = orjson.loads((await world.post(orjson.dumps(batch)))[1])
        assert [answer["id"] for answer in answers] == ["a", None, 2]
        assert answers[0]["result"] == "v1.2.3-dev"
        assert answers[2]["error"] == {"code": -32601, "message": "the method eth_call does not exist/is not available"}
        assert await world.post(orjson.dumps(silent)) == (200, b"")
        assert await world.call("optimism_version", 1) == (-32602, "too many arguments, want at most 0")
        assert await world.call("optimism_outputAtBlock", "latest") == (
            -32602,
            "invalid argument 0: json: cannot unmarshal hex string without 0x prefix into Go value of type "
            "hexutil.Uint64",
        )
        assert b'rpc_server_requests_total{method="<unknown>",rpc="main"} 1.0' in world.meter.text()

    run(scene)


def test_answers_to_a_batch_are_bounded(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "MAX_RESPONSES", 5_000)

    async def scene(world: World) -> None:
        one = {"jsonrpc": "2.0", "id": 1, "method": "optimism_syncStatus"}
        answers = orjson.loads((await world.post(orjson.dumps([one] * 20)))[1])
        assert "result" in answers[0] and answers[-1]["error"] == {"code": -32003, "message": "response too large"}
        assert len(answers) == 20

    run(scene)


def test_what_the_node_knows_by_itself(run: Any) -> None:
    async def scene(world: World) -> None:
        assert await world.call("health_status") == "v1.2.3-dev"
        assert await world.call("optimism_rollupConfig") == rollup_config_object(ROLLUP)
        assert await world.call("rpc_modules") == dict.fromkeys(
            ("admin", "explain", "health", "optimism", "rpc"), "1.0"
        )
        text = "failed to get safe head at l1 block 0x5: safe head database not enabled"
        assert await world.call("optimism_safeHeadAtL1Block", "0x5") == (-32000, text)
        assert await world.call("optimism_dependencySet") == (-32000, "not found")
        assert await world.call("admin_conductorEnabled") is False
        status = await world.call("optimism_syncStatus")
        assert status["unsafe_l2"]["number"] == 0
        assert await world.call("admin_sequencerActive") is False
        assert await world.call("admin_overrideLeader") == (-32000, "sequencer is not enabled")
        await world.until_ready()
        status = await world.call("optimism_syncStatus")
        assert status["unsafe_l2"]["number"] == 20 and status["current_l1"]["number"] == 10
        assert await world.call("admin_sequencerActive") is True
        assert await world.call("admin_overrideLeader") is None
        world.status["engine"].set(EngineStatus(1, None, None, None, None, None, True, True))
        await world.until(lambda: world.stage.node.engine is not None and world.stage.node.engine.unsafe is None)
        status = await world.call("optimism_syncStatus")
        assert (status["unsafe_l2"]["number"], status["finalized_l2"]["number"]) == (0, 20)

    run(scene)


def test_drops_are_fetched_page_by_page(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollup_node.stages.rpc.process.process_client.AGAIN", 0.05)
    history = DropBuffer(kept=500)
    for number in range(700):
        history.add(
            Drop("V4", f"number {number}", L1, False, DropEffect.DROPPED, "parent_hash_mismatch", {"got": number})
        )

    async def scene(world: World) -> None:
        lost: set[int] = set()

        def take(peer: Any, want: DropsRequest) -> None:
            if want.id in lost:
                server.send(peer, history.answer(want))
            lost.add(want.id)

        server = world.buses["derivation"].serve("derivation.drops", take)
        found = await world.call("explain_drops")
        assert found["total"] == 700
        assert [drop["values"]["got"] for drop in found["drops"]] == list(range(200, 700))
        assert found["drops"][0] == {
            "l1_block": {"hash": "0x" + L1.hash.hex(), "number": 10},
            "effect": "dropped",
            "rule": "V4",
            "reason": "parent_hash_mismatch",
            "text": "number 200",
            "values": {"got": 200},
        }

    run(scene)


def test_admin_is_unknown_unless_enabled(run: Any) -> None:
    async def scene(world: World) -> None:
        for method in METHODS:
            if method.namespace == "admin":
                text = f"the method {method.name} does not exist/is not available"
                assert await world.call(method.name) == (-32601, text)
        assert "admin" not in await world.call("rpc_modules")

    run(scene, enable_admin=False)


def test_control_of_the_engine(run: Any) -> None:
    answers = {
        StartSequencerRequest: lambda m: ControlResponse(m.id, "sequencer already running", None),
        StopSequencerRequest: lambda m: ControlResponse(m.id, None, L2.hash),
        ResetDerivationRequest: lambda m: ControlResponse(m.id, None, None),
    }

    async def scene(world: World) -> None:
        world.answer = lambda message: answers[type(message)](message)
        head = "0x" + L2.hash.hex()
        assert await world.call("admin_startSequencer", head) == (-32000, "sequencer already running")
        assert await world.call("admin_stopSequencer") == head
        assert await world.call("admin_resetDerivationPipeline") is None
        assert world.asked[0] == StartSequencerRequest(1, L2.hash)
        assert len({message.id for message in world.asked}) == 3
        assert (await world.call("admin_startSequencer", "0x12"))[0] == -32602

    run(scene)


def test_a_sequencer_that_is_stopped_is_shown_as_stopped(run: Any) -> None:
    """The engine's answer and its status come by two ways; whoever has the one sees the other."""

    async def scene(world: World) -> None:
        await world.until_ready()
        running = EngineStatus(1, L2, L2, L2, L2, L2, True, True)
        for method, params, active in (("stop", (), False), ("start", ("0x" + L2.hash.hex(),), True)):
            world.answer = lambda m: ControlResponse(m.id, None, L2.hash)
            later = asyncio.get_running_loop().call_later
            status = msgspec.structs.replace(running, sequencer_active=active)
            later(0.2, world.status["engine"].set, status)
            await world.call(f"admin_{method}Sequencer", *params)
            assert await world.call("admin_sequencerActive") is active

    run(scene)


def test_a_question_is_repeated_until_it_is_answered(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rollup_node.stages.rpc.process.process_client.AGAIN", 0.05)

    async def scene(world: World) -> None:
        world.answer = lambda m: ControlResponse(m.id, None, L2.hash) if len(world.asked) >= 3 else None
        assert await world.call("admin_stopSequencer") == "0x" + L2.hash.hex()
        assert world.asked[0] == world.asked[2]

    run(scene)


def test_output_at_block(run: Any) -> None:
    status = EngineStatus(1, L2, L2, L2, L2, L2, False, False)
    found = OutputResponse(0, None, L2, b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32, status)

    async def scene(world: World) -> None:
        world.answer = lambda m: (
            msgspec.structs.replace(found, id=m.id)
            if m.number == 20
            else msgspec.structs.replace(found, id=m.id, error="failed: not found")
        )
        output = await world.call("optimism_outputAtBlock", "0x14")
        assert output["outputRoot"] == "0x" + "0a" * 32 and output["blockRef"]["number"] == 20
        assert output["syncStatus"]["safe_l2"]["number"] == 20
        assert world.asked == [OutputRequest(1, 20)]
        assert await world.call("optimism_outputAtBlock", "0x15") == (-32000, "failed: not found")

    run(scene)


def test_a_call_that_takes_too_long(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "CALL_SECONDS", 0.2)

    async def scene(world: World) -> None:
        assert await world.call("admin_stopSequencer") == (-32002, "request timed out")
        assert await world.call("optimism_version") == "v1.2.3-dev"

    run(scene)


def test_a_bug_in_a_handler_is_an_answer(run: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    async def scene(world: World) -> None:
        monkeypatch.setattr(world.stage.node, "sync_status", lambda: 1 / 0)
        assert await world.call("optimism_syncStatus") == (-32603, "method handler crashed")

    run(scene)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_readiness(run: Any) -> None:
    async def scene(world: World) -> None:
        status, body = await world.get("/readyz")
        found = orjson.loads(body)
        assert status == 503 and found["ready"] is False
        assert "l1: not heard of yet" in found["reasons"] and "engine: no start yet" in found["reasons"]
        await world.until_ready()
        assert await world.get("/readyz") == (200, b'{"ready":true}\n')
        world.status["blobs"].set(Health(("beacon endpoint is away",)))
        await world.until(lambda: world.stage.node.health["blobs"] != ())
        status, body = await world.get("/readyz")
        assert status == 503 and orjson.loads(body)["reasons"] == ["blobs: beacon endpoint is away"]
        world.status["blobs"].set(Health(()))
        await world.until_ready()
        world.stage.node.subscribers["l1"].last_seen = 0.0
        world.buses["l1"]._endpoints.clear()
        status, body = await world.get("/readyz")
        assert status == 503 and orjson.loads(body)["reasons"][0].startswith("l1: not heard of for")

    run(scene)


def test_metrics_on_any_path(run: Any, tmp_path: Path) -> None:
    (tmp_path / "engine.prom").write_text("# HELP a_total A\n# TYPE a_total counter\na_total 3\n")
    (tmp_path / "l1.prom").write_text("a_total 1\n")
    (tmp_path / "broken.prom").write_bytes(b"\xff\xfe")

    async def scene(world: World) -> None:
        assert world.stage.metrics is not None
        for path in ("/", "/metrics", "/x/y"):
            async with world.http.get(f"http://127.0.0.1:{world.stage.metrics.port}{path}") as response:
                assert response.status == 200 and response.headers["Content-Type"].startswith(
                    "text/plain; version=0.0.4"
                )
                text = await response.text()
        assert 'a_total{process="engine"} 3' in text and 'a_total{process="l1"} 1' in text

    run(scene, metrics_enabled=True)


def test_a_port_in_use_is_one_clear_line(run: Any, tmp_path: Path) -> None:
    async def scene(world: World) -> None:
        async def nothing(request: Any) -> Any:
            raise AssertionError(request)

        other = server_http.HttpServer(nothing, "rpc", "127.0.0.1", world.stage.rpc.port)
        with pytest.raises(CriticalError, match=r"cannot listen on 127\.0\.0\.1:\d+ .*rpc\.port"):
            await other.start()
        await other.close()

    run(scene)
