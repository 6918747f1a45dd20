"""The root path of a supernode and the paths of its chains [SNO7, SNO8, LB7, SNO9]. Super roots of one chain: op-node's
JSON and errors, with an engine process behind it [RPC41 to RPC45]."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from rollup_node.stages.io import requests
from rollup_node.stages.io.task import ChainAside, ProcessEntry
from rollup_node.stages.messages.base import Health, Message, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.control import L1AtSafeHeadRequest, OutputRequest, OutputResponse, SafeHeadResponse
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.interop import ChainVerdict, DeniedOutput, HeadOutput, RoundResponse, Verdicts
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import output_root, super_root
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.process import supernode as supernode_module
from tests.support.rpc.harness import L1, L2, ROLLUP, RunWithRpc
from tests.support.rpc.supernode import CHAINS, GENESIS_TIME, SAFE, SupernodeHarness, l1_ref, l2_ref, running_supernode
from tests.support.timing.conditions import until


async def test_paths(tmp_path: Path) -> None:
    """[SNO7] as op-supernode has them. In targets without a path none names a chain."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "health_status", "params": []}
    paths = {200: ("/901", "/901/", "/901?x=1", "/902/", "/"), 404: ("/901/x", "/903/", "/0901/", "/0x385/", "/x")}
    async with running_supernode(tmp_path) as supernode:
        for status, path in ((status, path) for status, some in paths.items() for path in some):
            async with supernode.http.post(supernode.url + path, json=request) as response:
                assert response.status == status, path
        for start in ("OPTIONS *", "GET http://host", "CONNECT /901/", "CONNECT host:1"):
            reader, writer = await asyncio.open_connection("127.0.0.1", supernode.stage.rpc.port)
            writer.write(f"{start} HTTP/1.1\r\nHost: host\r\nConnection: close\r\n\r\n".encode())
            assert 200 <= int((await reader.readline()).split()[1]) < 500, start
            writer.close()


async def test_each_chain_has_its_own_rpc(tmp_path: Path) -> None:
    """[SNO7, SNO8, SNO9, VR9] Of all chains the lowest of each head, and the lowest L1 block."""
    async with running_supernode(tmp_path) as supernode:
        all_chains = await supernode.call("supernode_syncStatus")
        assert all_chains["chain_ids"] == ["901", "902"] == list(all_chains["chains"])
        assert all_chains["current_l1"] == {"hash": "0x" + l1_ref(29).hash.hex(), "number": 29}
        assert all_chains["safe_timestamp"] == all_chains["local_safe_timestamp"] == GENESIS_TIME + 2 * SAFE
        assert all_chains["finalized_timestamp"] == GENESIS_TIME + 6
        for chain in CHAINS:
            config = await supernode.call("optimism_rollupConfig", path=f"/{chain}/")
            assert config["l2_chain_id"] == chain
            status = await supernode.call("optimism_syncStatus", path=f"/{chain}")
            assert status["safe_l2"]["number"] == SAFE + chain - 901 and status == all_chains["chains"][str(chain)]
        missing = (-32601, "the method optimism_syncStatus does not exist/is not available")
        assert await supernode.call("optimism_syncStatus") == missing
        assert (await supernode.call("supernode_syncStatus", path="/901/"))[0] == -32601
        modules = dict.fromkeys(("health", "heartbeat", "rpc", "supernode", "superroot"), "1.0")
        assert await supernode.call("rpc_modules") == modules
        beats = {await supernode.call("heartbeat_check") for _ in range(3)}
        assert len(beats) == 3 and all(len(beat) == 10 for beat in beats)
        assert await supernode.call("heartbeat_check", 1) == (-32602, "too many arguments, want at most 0")


async def test_a_verified_chain_that_searches_its_start_keeps_its_safe_head(tmp_path: Path) -> None:
    """[SNO13] Another shows zeros."""
    for verified in (True, False):
        async with running_supernode(tmp_path, verified=verified) as supernode:
            before = await supernode.call("optimism_syncStatus", path="/901/")
            supernode.status["engine.901"].set(EngineStatus(2, None, None, None, None, None, False, False))
            node = supernode.stage.nodes["901"]
            await until(lambda node=node: node.seen.engine is not None and node.seen.engine.reset == 2)  # type: ignore[misc]
            after = await supernode.call("optimism_syncStatus", path="/901/")
            heads = [after[name]["number"] for name in ("unsafe_l2", "local_safe_l2", "safe_l2")]
            assert heads == [before["safe_l2"]["number"] * verified] * 3
            assert after["finalized_l2"] == before["finalized_l2"]


async def test_after_a_start_what_was_verified_is_there_before_any_head(tmp_path: Path) -> None:
    """[SNO10, LB7], optimism#22281: no other answer is given about a second that was verified."""
    outputs = {chain: HeadOutput(b"\x01" * 32, b"\x02" * 32, l1_ref(7).id) for chain in CHAINS}
    supernode = SupernodeHarness(tmp_path, verified=True)
    supernode.errors = dict.fromkeys(CHAINS, None)
    heads = {chain: l2_ref(chain, 5).id for chain in CHAINS}
    supernode.rounds[GENESIS_TIME + 10] = RoundResponse(0, None, l1_ref(19).id, heads, {}, outputs)
    async with supernode.running():
        for path in ("/", "/901/", "/902/"):
            result = await supernode.call("superroot_atTimestamp", hex(GENESIS_TIME + 10), path=path)
            assert result["data"]["verified_required_l1"]["number"] == 19
            assert result["current_l1"]["number"] == 0, "nothing is said to be complete"


async def test_super_roots(tmp_path: Path) -> None:
    """[LB7, LB10, RPC41 to RPC44] With op-supernode's texts where they cannot be told."""
    async with running_supernode(tmp_path) as supernode:
        timestamp = GENESIS_TIME + 11
        result = await supernode.call("superroot_atTimestamp", hex(timestamp))
        assert list(result["optimistic_at_timestamp"]) == ["901", "902"] == result["chain_ids"]
        roots = [(chain, chain.to_bytes(32, "big")) for chain in CHAINS]
        assert result["data"]["super_root"] == "0x" + super_root(timestamp, roots).hex()
        assert result["data"]["verified_required_l1"]["number"] == 6
        for after, chains in ((2, ["902"]), (4, [])):
            later = await supernode.call("superroot_atTimestamp", hex(GENESIS_TIME + 2 * SAFE + after))
            assert "data" not in later and list(later["optimistic_at_timestamp"]) == chains
        branch = "build optimistic branch at {0}: failed to get optimistic"
        early = GENESIS_TIME - 1
        text = f"{branch} block at timestamp {{0}} for chain ID 901: failed to convert timestamp to block number: "
        text = f"{text}did not reach genesis time ({GENESIS_TIME}) yet".format(early)
        assert await supernode.call("superroot_atTimestamp", hex(early)) == (-32000, text)
        first = GENESIS_TIME + 2
        text = f"{branch} source L1 at timestamp {{0}} for chain ID 901: L1 at safe head unavailable for L2 0x{{1}}:1:"
        text = f"{text} safedb history unavailable on this node".format(first, l2_ref(901, 1).hash.hex())
        assert await supernode.call("superroot_atTimestamp", hex(first)) == (-32000, text)
        supernode.errors[902] = "the execution engine is away"
        text = f"{branch} block at timestamp {{0}} for chain ID 902: the execution engine is away"
        answer = await supernode.call("superroot_atTimestamp", hex(GENESIS_TIME + 4))
        assert answer == (-32000, text.format(GENESIS_TIME + 4))


async def with_round(
    supernode: SupernodeHarness, time: int, outputs: dict[int, HeadOutput], activation: int = 0
) -> RoundResponse:
    """Let a second and all before it be verified, with the blocks that the engines have."""
    verdict = ChainVerdict(None, None, (), 0, None)
    supernode.status["interop"].set(Verdicts(dict.fromkeys(CHAINS, verdict), activation, l1_ref(19).id, time))
    await until(lambda: all(node.verdicts for node in supernode.stage.nodes.values()))
    heads = {chain: l2_ref(chain, 5).id for chain in CHAINS}
    supernode.rounds[time] = RoundResponse(0, None, l1_ref(19).id, heads, {}, outputs)
    return supernode.rounds[time]


async def test_only_verified_seconds_have_a_super_root(tmp_path: Path) -> None:
    """[LB7] The same at the paths of the chains, where op-supernode has one before it is verified."""
    async with running_supernode(tmp_path, verified=True) as supernode:
        times = [hex(GENESIS_TIME + after) for after in (6, 10, 12)]

        async def with_data(path: str) -> list[bool]:
            results = [await supernode.call("superroot_atTimestamp", time, path=path) for time in times]
            assert all("901" in result["optimistic_at_timestamp"] for result in results)
            return ["data" in result for result in results]

        await with_round(supernode, GENESIS_TIME + 4, {})
        assert await with_data("/") == [False] * 3
        await with_round(supernode, GENESIS_TIME + 10, {}, GENESIS_TIME + 8)
        await until(lambda: all(node.verdicts.activation for node in supernode.stage.nodes.values() if node.verdicts))
        assert await with_data("/") == await with_data("/901/") == [True, True, False]
        status = await supernode.call("supernode_syncStatus")
        assert status["current_l1"]["number"] == 19


async def test_until_the_activation_is_known_no_second_is_called_unverified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[LB7, RPC43a] The rpc process has just been started again, and has not heard of the interop process yet."""
    async with running_supernode(tmp_path, verified=True) as supernode:
        calls = [
            asyncio.create_task(supernode.call("superroot_atTimestamp", hex(GENESIS_TIME + after), path="/901/"))
            for after in (6, 12)
        ]
        await asyncio.sleep(0.3)
        await with_round(supernode, GENESIS_TIME + 10, {}, GENESIS_TIME + 8)
        assert ["data" in result for result in await asyncio.gather(*calls)] == [True, False]
        for node in supernode.stage.nodes.values():
            node.verdicts = None
        monkeypatch.setattr(supernode_module, "PATIENCE_SECONDS", 0.2)
        answer = await supernode.call("superroot_atTimestamp", hex(GENESIS_TIME + 12))
        assert answer == (-32000, "the interop process does not answer")


async def test_super_roots_are_those_of_the_rounds(tmp_path: Path) -> None:
    """[LB7, LB8, LB10, SNO10] With the round's L1 block; a denied block is the optimistic one, and there is none while
    the engine of a chain has another block than the one that is verified. A head that is removed for its age [VR12] is
    that of the engine."""
    async with running_supernode(tmp_path, verified=True) as supernode:
        time = GENESIS_TIME + 10
        denied = DeniedOutput(b"\x01" * 32, b"\x02" * 32, b"\x03" * 32)
        verified = msgspec.structs.replace(await with_round(supernode, time, {}), denied={902: denied})
        supernode.rounds[time] = verified
        result = await supernode.call("superroot_atTimestamp", hex(time))
        roots = [(chain, chain.to_bytes(32, "big")) for chain in CHAINS]
        assert result["data"]["super_root"] == "0x" + super_root(time, roots).hex()
        assert result["data"]["verified_required_l1"]["number"] == 19
        optimistic = result["optimistic_at_timestamp"]["902"]
        assert (
            optimistic["output"]["blockHash"] == "0x" + denied.hash.hex() and optimistic["required_l1"]["number"] == 6
        )
        root = output_root(denied.state_root, denied.storage_root, denied.hash)
        assert optimistic["output_root"] == "0x" + root.hex()
        another_head = msgspec.structs.replace(verified, heads={**verified.heads, 901: l2_ref(901, 4).id})
        no_round = msgspec.structs.replace(verified, l1=None, heads={})
        one_removed = msgspec.structs.replace(verified, heads={901: verified.heads[901]}, removed=(902,))
        removed = msgspec.structs.replace(verified, heads={}, removed=CHAINS)
        for answer, expected in (
            (another_head, [False, False, True]),
            (no_round, [False] * 3),
            (one_removed, [True] * 3),
            (removed, [True] * 3),
        ):
            supernode.rounds[time] = answer
            calls = [supernode.call("superroot_atTimestamp", hex(time), path=path) for path in ("/", "/901/", "/902/")]
            assert ["data" in result for result in await asyncio.gather(*calls)] == expected
        supernode.rounds[time] = msgspec.structs.replace(verified, error="the interop database is damaged")
        error = await supernode.call("superroot_atTimestamp", hex(time))
        assert error == (-32000, "the interop database is damaged")


async def test_verified_super_roots_need_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """[SNO10, LB7] One that is not known is asked of the engine; a chain that gives no answer is named."""
    time = GENESIS_TIME + 10
    outputs = {chain: HeadOutput(b"\x01" * 32, b"\x02" * 32, l1_ref(chain - 890).id) for chain in CHAINS}
    async with running_supernode(tmp_path, verified=True) as supernode:
        verified = await with_round(supernode, time, outputs)
        supernode.errors = dict.fromkeys(CHAINS, "the execution engine is away")
        heads = {chain: l2_ref(chain, 5).hash for chain in CHAINS}
        roots = [(chain, output_root(b"\x01" * 32, b"\x02" * 32, head)) for chain, head in heads.items()]
        result = await supernode.call("superroot_atTimestamp", hex(time))
        assert result["data"]["super_root"] == "0x" + super_root(time, roots).hex()
        assert result["data"]["verified_required_l1"]["number"] == 19
        shown = result["optimistic_at_timestamp"]
        assert [shown[str(chain)]["required_l1"]["number"] for chain in CHAINS] == [11, 12]
        for chain, root in roots:
            result = await supernode.call("superroot_atTimestamp", hex(time), path=f"/{chain}/")
            assert result["optimistic_at_timestamp"] == {str(chain): shown[str(chain)]}
            assert result["data"]["super"]["chains"] == [{"ChainID": str(chain), "Output": "0x" + root.hex()}]
        supernode.rounds[time] = msgspec.structs.replace(verified, outputs={901: outputs[901]})
        text = (
            f"build optimistic branch at {time}: failed to get optimistic block at timestamp {time} for chain ID 902: "
        )
        answer = await supernode.call("superroot_atTimestamp", hex(time))
        assert answer == (-32000, text + "the execution engine is away")
        supernode.errors[902] = None
        monkeypatch.setattr(supernode_module, "PATIENCE_SECONDS", 0.3)
        answer = await supernode.call("superroot_atTimestamp", hex(time))
        assert answer == (-32000, text + "its engine process does not answer")


async def test_readiness_of_all_and_of_each(tmp_path: Path) -> None:
    """[RPC92] What concerns all chains stands once."""
    async with running_supernode(tmp_path) as supernode:
        for path in ("/readyz", "/901/readyz", "/902/readyz"):
            assert (await supernode.get(path))[0] == 200, path
        supernode.status["engine.902"].set(Health((Problem(Code.ENGINE_UNREACHABLE, "", "away"),)))
        supernode.status["l1"].set(Health((Problem(Code.L1_STALE, "", "old"),)))
        expected = ["l1: L1-STALE: old", "chain 902: engine: ENGINE-UNREACHABLE: away"]
        async with asyncio.timeout(10):
            while (answer := await supernode.get("/readyz"))[0] == 200 or len(orjson.loads(answer[1])["reasons"]) < 2:
                await asyncio.sleep(0.05)
        assert orjson.loads(answer[1]) == {"ready": False, "reasons": expected}
        assert (await supernode.get("/901/readyz"))[0] == 503
        assert list(orjson.loads((await supernode.get("/status.json"))[1])["chains"]) == ["901", "902"]
        assert orjson.loads((await supernode.get("/902/status.json"))[1])["chain"]["l2_chain_id"] == 902


async def test_what_the_supervisor_says_of_each_chain(tmp_path: Path) -> None:
    """[RPC94, SNO11, LIF33, LIF34] Processes by their roles; a chain that is set aside; metrics with the chain."""
    entries = [ProcessEntry("supervisor", 0, 1, 1, 1.0, 1), ProcessEntry("l1", 0, 2, 1, 1.0, 1)]
    entries += [ProcessEntry("engine", 0, chain, 1, 1.0, 1, str(chain)) for chain in CHAINS]
    (tmp_path / "processes.json").write_bytes(msgspec.json.encode(entries))
    aside = ChainAside("902", "CRASH-LOOP", "process engine.902 died 6 times", 1.0, 16.0)
    (tmp_path / "aside.json").write_bytes(msgspec.json.encode([aside]))
    options = {"processes_file": str(tmp_path / "processes.json"), "metrics_enabled": True}
    async with running_supernode(tmp_path, **options) as supernode:
        status, text = await supernode.get("/readyz")
        reason = "supervisor: CHAIN-ASIDE: process engine.902 died 6 times (CRASH-LOOP)"
        assert (status, orjson.loads(text)["reasons"]) == (503, [f"chain 902: {reason}"])
        assert (await supernode.get("/901/readyz"))[0] == 200
        for task in supernode.stage.periodic_tasks:
            if task.name == "status metrics":
                await task.step()
        lines = [line for line in supernode.meter.text().decode().splitlines() if "sync_head_age_seconds{" in line]
        assert {line.partition('chain="')[2][:3] for line in lines} == {"901", "902"}
        for chain in CHAINS:
            processes = orjson.loads((await supernode.get(f"/{chain}/status.json"))[1])["processes"]
            assert [(item["name"], item["pid"]) for item in processes] == [
                ("supervisor", 1),
                ("l1", 2),
                ("engine", chain),
            ]
            assert processes[2]["status_age_s"] is not None


# --- superroot_atTimestamp of one chain ---------------------------------------------------------------------------

STATUS = EngineStatus(
    1, L2, L2, msgspec.structs.replace(L2, timestamp=190), L2, msgspec.structs.replace(L2, timestamp=180), False, False
)
ROOT, STATE, STORAGE = b"\x0a" * 32, b"\x0b" * 32, b"\x0c" * 32
TIMESTAMP = 5 + 20 * 2 + 1


def output(request: OutputRequest, block: L2BlockRef | None = L2) -> OutputResponse:
    return OutputResponse(request.id, None, block, ROOT, STATE, STORAGE, STATUS)


async def test_an_output_at_a_timestamp(running_rpc: RunWithRpc) -> None:
    def answer(request: Message) -> Message:
        if isinstance(request, L1AtSafeHeadRequest):
            return SafeHeadResponse(request.id, None, BlockId(9, b"\x0d" * 32), L2.id)
        assert isinstance(request, OutputRequest) and request.number == 20 and request.only_safe
        return output(request)

    async with running_rpc(safedb=True) as rpc:
        await rpc.until_ready()
        rpc.on_control = answer
        l1 = {"hash": "0x" + "0d" * 32, "number": 9}
        roots = {"stateRoot": to_hex(STATE), "messagePasserStorageRoot": to_hex(STORAGE)}
        shown = {**roots, "blockHash": to_hex(L2.hash)}
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == {
            "current_l1": {"hash": to_hex(L1.hash), "number": 10},
            "safe_timestamp": 200,
            "local_safe_timestamp": 190,
            "finalized_timestamp": 180,
            "optimistic_at_timestamp": {"901": {"output": shown, "output_root": to_hex(ROOT), "required_l1": l1}},
            "chain_ids": ["901"],
            "data": {
                "verified_required_l1": l1,
                "super": {"timestamp": hex(TIMESTAMP), "chains": [{"ChainID": "901", "Output": to_hex(ROOT)}]},
                "super_root": to_hex(super_root(TIMESTAMP, [(901, ROOT)])),
            },
        }


async def test_a_block_that_is_not_safe_has_no_data_and_that_of_genesis_needs_no_record(
    running_rpc: RunWithRpc,
) -> None:
    """[RPC43, RPC44]"""
    genesis = L2BlockRef(ROLLUP.genesis.l2.hash, 0, ZERO_HASH, 5, ROLLUP.genesis.l1, 0)
    async with running_rpc() as rpc:
        rpc.on_control = lambda request: output(request, None)
        result = await rpc.call("superroot_atTimestamp", hex(TIMESTAMP))
        assert "data" not in result and result["optimistic_at_timestamp"] == {} and result["chain_ids"] == ["901"]
        assert result["current_l1"] == {"hash": to_hex(ZERO_HASH), "number": 0}
        rpc.on_control = lambda request: output(request, genesis)
        result = await rpc.call("superroot_atTimestamp", "0x5")
        assert result["data"]["verified_required_l1"] == {"hash": to_hex(ZERO_HASH), "number": 0}


def newer(number: int) -> DerivationStatus:
    """Derivation has moved on to this L1 block."""
    return DerivationStatus(1, L1BlockRef(b"\x0f" * 32, number, L1.hash, 112), True)


@pytest.mark.parametrize("method", ["superroot_atTimestamp", "optimism_outputAtBlock"])
async def test_current_l1_is_not_newer_than_the_heads(
    running_rpc: RunWithRpc, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """[RPC33, RPC43a]: L1 block 11 is read while the engine process answers with heads from before it."""
    monkeypatch.setattr(requests, "REPEAT_SECONDS", 0.02)
    async with running_rpc() as rpc:

        def answer(request: Any) -> Message | None:
            rpc.status["derivation"].set(newer(11))
            seen = rpc.stage.node.seen.derivation
            assert seen is not None
            return output(request, None if request.only_safe else L2) if seen == newer(11) else None

        await rpc.until_ready()
        rpc.on_control = answer
        result = await rpc.call(method, hex(TIMESTAMP))
        assert result.get("syncStatus", result)["current_l1"]["number"] == 10
        rpc.on_control = lambda request: output(request, None if request.only_safe else L2)
        result = await rpc.call(method, hex(TIMESTAMP))
        assert result.get("syncStatus", result)["current_l1"]["number"] == 11


async def test_current_l1_is_zero_during_a_reset_and_without_derivation(running_rpc: RunWithRpc) -> None:
    """[RPC40, RPC43a]: the L1 block of a follow source may be ahead of our heads."""
    no_heads = EngineStatus(1, None, None, None, None, None, False, False)
    for derives, statuses in (
        (True, (msgspec.structs.replace(STATUS, reset=2), no_heads)),
        (False, (msgspec.structs.replace(STATUS, current_l1=L1),)),
    ):
        async with running_rpc(derives=derives) as rpc:
            await rpc.until_ready()
            for status in statuses:
                rpc.on_control = lambda request, status=status: msgspec.structs.replace(  # type: ignore[misc]
                    output(request, None), status=status
                )
                result = await rpc.call("superroot_atTimestamp", hex(TIMESTAMP))
                assert result["current_l1"]["number"] == 0


@pytest.mark.parametrize("reason", ["l1 at safe head not found", "safe head database not enabled"])
async def test_errors(running_rpc: RunWithRpc, reason: str) -> None:
    """[RPC44, RPC45, SDB1, SDB6]: never a zero block for one that is not recorded."""

    def answer(request: Any) -> Message:
        if isinstance(request, L1AtSafeHeadRequest):
            return SafeHeadResponse(request.id, reason, L1.id, L2.id)
        return output(request)

    async with running_rpc(safedb="enabled" not in reason) as rpc:
        text = "target block number for timestamp 4: did not reach genesis time (5) yet"
        assert await rpc.call("superroot_atTimestamp", "0x4") == (-32000, text)
        rpc.on_control = answer
        text = f"l1AtSafeHead@{to_hex(L2.hash)}:20: {reason}"
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == (-32000, text)
        rpc.on_control = lambda request: OutputResponse(request.id, "busy", None, ROOT, STATE, STORAGE, None)
        assert await rpc.call("superroot_atTimestamp", hex(TIMESTAMP)) == (-32000, "busy")
        assert (await rpc.call("superroot_atTimestamp", "latest"))[0] == -32602
