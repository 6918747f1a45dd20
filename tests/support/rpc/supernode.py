"""The rpc stage of a supernode of two chains with the buses of the other processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages import control
from rollup_node.stages.messages.base import Health, Message
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.interop import RoundRequest, RoundResponse
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from rollup_node.stages.rpc.config import RpcConfig, RpcProcessConfig
from rollup_node.stages.rpc.process.stage import RpcStage
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses
from tests.support.rpc.harness import ROLLUP, ServedStage
from tests.support.timing.conditions import until

CHAINS = (901, 902)
GENESIS_TIME = ROLLUP.genesis.l2_time
SAFE = 20
"""The number of the local safe head of the first chain, of the second one more; blocks are two seconds apart."""


def l1_ref(number: int) -> L1BlockRef:
    return L1BlockRef(number.to_bytes(32, "big"), number, bytes(32), number)


def l2_ref(chain_id: int, number: int) -> L2BlockRef:
    block_hash = chain_id.to_bytes(16, "big") + number.to_bytes(16, "big")
    return L2BlockRef(block_hash, number, bytes(32), GENESIS_TIME + 2 * number, BlockId(1, bytes(32)), 0)


class SupernodeHarness(ServedStage):
    """The rpc stage of a supernode of two chains whose engine processes answer as told, as does the interop process.

    `errors` are their answers about outputs instead of blocks, None for no answer."""

    def __init__(self, directory: Path, verified: bool = False, **options: Any) -> None:
        groups = [f"{role}.{chain}" for chain in CHAINS for role in ("derivation", "engine")]
        shared = ("l1", "blobs", "rpc", *(("interop",) if verified else ()))
        self.buses = in_process_buses(CHANNELS, directory, dict.fromkeys((*shared, *groups), 1))
        configs = {
            str(chain): msgspec.structs.replace(
                RpcConfig("v1.2.3-dev", ROLLUP, "127.0.0.1", metrics_dir=str(directory)),
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
        self.errors: dict[int, str | None] = {}
        self.rounds: dict[int, RoundResponse] = {}
        if verified:
            self._rounds = self.buses["interop"].serve("interop.rounds", self._answer_round)
        self._servers: dict[int, Any] = {}
        for chain in CHAINS:
            answer = partial(self._answer, chain)
            self._servers[chain] = self.buses[f"engine.{chain}"].serve("engine.control", answer)

    def _answer_round(self, client: ProcessId, request: RoundRequest) -> None:
        unknown = RoundResponse(0, None, None, {}, {}, {})
        self._rounds.send(client, msgspec.structs.replace(self.rounds.get(request.timestamp, unknown), id=request.id))

    def engine_status(self, chain: int) -> EngineStatus:
        safe = l2_ref(chain, SAFE + chain - 901)
        return EngineStatus(1, safe, safe, safe, safe, l2_ref(chain, 3), False, False)

    def _answer(self, chain: int, client: ProcessId, request: Message) -> None:
        if isinstance(request, control.OutputRequest):
            status, number = self.engine_status(chain), request.number
            block = l2_ref(chain, number) if number <= SAFE + chain - 901 and chain not in self.errors else None
            error = self.errors.get(chain)
            if chain in self.errors and error is None:
                return
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
                publisher.set(DerivationStatus(1, l1_ref(int(chain) - 872), True))

    async def until_well(self) -> None:
        """Publish that all is well, and wait until that is known."""
        self.publish()
        await until(lambda: not any(node.faults() for node in self.stage.nodes.values()))


@asynccontextmanager
async def running_supernode(directory: Path, **options: Any) -> AsyncIterator[SupernodeHarness]:
    """Run a supernode of which all is well."""
    async with SupernodeHarness(directory, **options).running() as supernode:
        await supernode.until_well()
        yield supernode
