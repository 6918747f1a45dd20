"""The root path of a supernode and the paths of its chains [SNO7, SNO8, LB7, SNO9]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest
from aiohttp import ClientSession

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ChainAside
from rollup_node.stages.messages import control
from rollup_node.stages.messages.base import Health, Message, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.messages.verification import ChainVerdict, Verdicts
from rollup_node.stages.protocol.output_root import super_root
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.process.stage import RpcStage
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.support.rpc.harness import ROLLUP
from tests.support.timing.conditions import until

CHAINS = (901, 902)
GENESIS_TIME = ROLLUP.genesis.l2_time
SAFE = 20
"""The number of the local safe head of both chains, whose blocks are two seconds apart."""


def l1_ref(number: int) -> L1BlockRef:
    return L1BlockRef(number.to_bytes(32, "big"), number, bytes(32), number)


def l2_ref(chain_id: int, number: int) -> L2BlockRef:
    block_hash = chain_id.to_bytes(16, "big") + number.to_bytes(16, "big")
    return L2BlockRef(block_hash, number, bytes(32), GENESIS_TIME + 2 * number, BlockId(1, bytes(32)), 0)


class SupernodeHarness:
    """The rpc stage of a supernode of two chains whose engine processes answer as told."""

    def __init__(self, directory: Path, verified: bool = False, **options: Any) -> None:
        groups = [f"{role}.{chain}" for chain in CHAINS for role in ("derivation", "engine")]
        shared = ("l1", "blobs", "rpc", *(("interop",) if verified else ()))
        self.buses = in_process_buses(CHANNELS, directory, dict.fromkeys((*shared, *groups), 1))
        configs = {
            str(chain): msgspec.structs.replace(
                RpcConfig(*("127.0.0.1", 0, False, "v1.2.3-dev", False, "127.0.0.1", 0, str(directory), ROLLUP)),
                rollup=msgspec.structs.replace(ROLLUP, l2_chain_id=chain),
                safedb=True,
                verified=verified,
                aside_file=str(directory / "aside.json"),
                **options,
            )
            for chain in CHAINS
        }
        self.meter = Meter("rpc")
        self.stage = RpcStage(RpcProcessConfig(configs), self.buses["rpc"], self.meter)
        self.status = {
            name: bus.publish(f"status.{name.partition('.')[0]}") for name, bus in self.buses.items() if name != "rpc"
        }
        self.errors: dict[int, str] = {}
        self._servers: dict[int, Any] = {}
        for chain in CHAINS:
            self._servers[chain] = self.buses[f"engine.{chain}"].serve(
                "engine.control", lambda client, request, chain=chain: self._answer(chain, client, request)
            )

    def engine_status(self, chain: int) -> EngineStatus:
        safe = l2_ref(chain, SAFE + chain - 901)
        return EngineStatus(1, safe, safe, safe, safe, l2_ref(chain, 3), False, False)

    def _answer(self, chain: int, client: ProcessId, request: Message) -> None:
        if isinstance(request, control.OutputRequest):
            status, number = self.engine_status(chain), request.number
            block = l2_ref(chain, number) if number <= SAFE and chain not in self.errors else None
            error = self.errors.get(chain)
            root = chain.to_bytes(32, "big")
            response: Message = control.OutputResponse(
                request.id, error, block, root, bytes(32), bytes(32), None if error else status
            )
        else:
            assert isinstance(request, control.L1AtSafeHeadRequest)
            error = "safedb history unavailable on this node" if request.number == 1 else None
            required = l1_ref(request.number + chain - 901).id
            response = control.SafeHeadResponse(request.id, error, required, BlockId(0, bytes(32)))
        self._servers[chain].send(client, response)

    def publish(self) -> None:
        """Publish that all is well."""
        self.status["l1"].set(L1Heads(l1_ref(30), l1_ref(25), l1_ref(20)))
        for name, publisher in self.status.items():
            publisher.set(Health(()))
            role, _, chain = name.partition(".")
            if role == "engine":
                publisher.set(self.engine_status(int(chain)))
            elif role == "derivation":
                publisher.set(DerivationStatus(1, l1_ref(int(chain) - 872), True, 0))

    @asynccontextmanager
    async def running(self) -> AsyncIterator["SupernodeHarness"]:
        async with running_buses(self.buses), ClientSession() as self.http:
            await self.stage.start()
            self.url = f"http://127.0.0.1:{self.stage.rpc.port}"
            self.publish()
            nodes = self.stage.nodes.values()
            await until(lambda: not any(node.faults() for node in nodes))
            try:
                yield self
            finally:
                await self.stage.close()

    async def call(self, method: str, *params: object, path: str = "/") -> Any:
        """Return the result of a call, or its error as a tuple."""
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Content-Type": "application/json"}
        async with self.http.post(self.url + path, data=orjson.dumps(request), headers=headers) as response:
            assert response.status == 200, await response.text()
            answer = await response.json()
        return answer["result"] if "error" not in answer else (answer["error"]["code"], answer["error"]["message"])

    async def get(self, path: str) -> tuple[int, str]:
        async with self.http.get(self.url + path) as response:
            return response.status, await response.text()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *(("/901", 200), ("/901/", 200), ("/901?x=1", 200), ("/902/", 200), ("/", 200)),
        *(("/901/x", 404), ("/903/", 404), ("/0901/", 404), ("/0x385/", 404), ("/x", 404)),
    ],
)
async def test_paths(tmp_path: Path, path: str, status: int) -> None:
    """[SNO7] as op-supernode has them."""
    async with SupernodeHarness(tmp_path).running() as supernode:
        request = {"jsonrpc": "2.0", "id": 1, "method": "health_status", "params": []}
        async with supernode.http.post(supernode.url + path, json=request) as response:
            assert response.status == status


async def test_each_chain_has_its_own_rpc(tmp_path: Path) -> None:
    """[SNO7, SNO8]"""
    async with SupernodeHarness(tmp_path).running() as supernode:
        for chain in CHAINS:
            config = await supernode.call("optimism_rollupConfig", path=f"/{chain}/")
            assert config["l2_chain_id"] == chain
            status = await supernode.call("optimism_syncStatus", path=f"/{chain}")
            assert status["safe_l2"]["number"] == SAFE + chain - 901
        missing = (-32601, "the method optimism_syncStatus does not exist/is not available")
        assert await supernode.call("optimism_syncStatus") == missing
        assert (await supernode.call("supernode_syncStatus", path="/901/"))[0] == -32601
        modules = dict.fromkeys(("health", "heartbeat", "rpc", "supernode", "superroot"), "1.0")
        assert await supernode.call("rpc_modules") == modules
        beats = {await supernode.call("heartbeat_check") for _ in range(3)}
        assert len(beats) == 3 and all(len(beat) == 10 for beat in beats)
        assert await supernode.call("heartbeat_check", 1) == (-32602, "too many arguments, want at most 0")


async def test_the_status_of_all_chains(tmp_path: Path) -> None:
    """[SNO9, VR9] The lowest of each head, and the lowest L1 block."""
    async with SupernodeHarness(tmp_path).running() as supernode:
        status = await supernode.call("supernode_syncStatus")
        assert status["chain_ids"] == ["901", "902"] == list(status["chains"])
        assert status["current_l1"] == {"hash": "0x" + l1_ref(29).hash.hex(), "number": 29}
        assert status["safe_timestamp"] == status["local_safe_timestamp"] == GENESIS_TIME + 2 * SAFE
        assert status["finalized_timestamp"] == GENESIS_TIME + 6
        assert status["chains"]["902"] == await supernode.call("optimism_syncStatus", path="/902/")


async def test_super_roots(tmp_path: Path) -> None:
    """[LB7, LB10, RPC41 to RPC44]"""
    async with SupernodeHarness(tmp_path).running() as supernode:
        timestamp = GENESIS_TIME + 11
        result = await supernode.call("superroot_atTimestamp", hex(timestamp))
        assert list(result["optimistic_at_timestamp"]) == ["901", "902"] == result["chain_ids"]
        roots = [(chain, chain.to_bytes(32, "big")) for chain in CHAINS]
        assert result["data"]["super_root"] == "0x" + super_root(timestamp, roots).hex()
        assert result["data"]["verified_required_l1"]["number"] == 6
        later = await supernode.call("superroot_atTimestamp", hex(GENESIS_TIME + 2 * SAFE + 2))
        assert "data" not in later and later["optimistic_at_timestamp"] == {}


async def test_super_roots_that_cannot_be_told(tmp_path: Path) -> None:
    """[LB7] with op-supernode's texts."""
    branch = "build optimistic branch at {0}: failed to get optimistic"
    async with SupernodeHarness(tmp_path).running() as supernode:
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


async def test_only_verified_seconds_have_a_super_root(tmp_path: Path) -> None:
    """[LB7] The same at the paths of the chains, where op-supernode has one before it is verified."""
    async with SupernodeHarness(tmp_path, verified=True).running() as supernode:
        activation = GENESIS_TIME + 8
        times = [hex(GENESIS_TIME + after) for after in (6, 10, 12)]

        async def with_data(path: str) -> list[bool]:
            results = [await supernode.call("superroot_atTimestamp", time, path=path) for time in times]
            assert all("901" in result["optimistic_at_timestamp"] for result in results)
            return ["data" in result for result in results]

        assert await with_data("/") == [False] * 3
        verdict = ChainVerdict(None, None, (), 0, None)
        verdicts = Verdicts(dict.fromkeys(CHAINS, verdict), activation, l1_ref(17).id, GENESIS_TIME + 10)
        supernode.status["interop"].set(verdicts)
        await until(lambda: all(node.verdicts for node in supernode.stage.nodes.values()))
        assert await with_data("/") == await with_data("/901/") == [True, True, False]
        status = await supernode.call("supernode_syncStatus")
        assert status["current_l1"]["number"] == 17


async def test_readiness_of_all_and_of_each(tmp_path: Path) -> None:
    """[RPC92] What concerns all chains stands once."""
    async with SupernodeHarness(tmp_path).running() as supernode:
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


async def test_a_chain_that_is_set_aside_is_not_ready(tmp_path: Path) -> None:
    """[SNO11, LIF34]"""
    aside = ChainAside("902", "CRASH-LOOP", "process engine.902 died 6 times", 1.0, 16.0)
    (tmp_path / "aside.json").write_bytes(msgspec.json.encode([aside]))
    async with SupernodeHarness(tmp_path).running() as supernode:
        status, text = await supernode.get("/readyz")
        reason = "supervisor: CHAIN-ASIDE: process engine.902 died 6 times (CRASH-LOOP)"
        assert (status, orjson.loads(text)["reasons"]) == (503, [f"chain 902: {reason}"])
        assert (await supernode.get("/901/readyz"))[0] == 200


async def test_the_status_page_has_a_row_for_each_chain(tmp_path: Path) -> None:
    """[SNO12]"""
    async with SupernodeHarness(tmp_path, status_enabled=True, status_addr="127.0.0.1").running() as supernode:
        assert supernode.stage.status is not None
        supernode.url = f"http://127.0.0.1:{supernode.stage.status.port}"
        for path in ("/", "/status"):
            status, text = await supernode.get(path)
            assert status == 200 and "2 of 2 chains are ready" in text
            assert all(f'href="/{chain}/status"' in text for chain in CHAINS)
        for path in ("/901/status", "/902/status/uplot.js"):
            assert (await supernode.get(path))[0] == 200
        assert (await supernode.get("/903/status"))[0] == 404
        assert list(orjson.loads((await supernode.get("/status.json"))[1])["chains"]) == ["901", "902"]


async def test_metrics_have_the_chain(tmp_path: Path) -> None:
    """[LIF33] Of what the rpc process says of each chain."""
    async with SupernodeHarness(tmp_path, metrics_enabled=True).running() as supernode:
        for task in supernode.stage.periodic_tasks:
            if task.name == "status metrics":
                await task.step()
        text = supernode.meter.text().decode()
        lines = [line for line in text.splitlines() if "sync_head_age_seconds{" in line]
        assert {line.partition('chain="')[2][:3] for line in lines} == {"901", "902"}
