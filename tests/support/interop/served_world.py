"""The chains and the L1 of a World as processes of a node: engines over HTTP, their processes and l1 on buses.

A block has a real header and real receipts. An engine process follows L1 when it is told to, publishes its heads,
answers from a safe head database, and carries out transitions as the verdicts say, unless it is held."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rollup_node.ipc.bus.bus import Bus, ProcessId
from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.messages.control import (
    L1_HISTORY_UNAVAILABLE,
    L1_NOT_FOUND,
    L1AtSafeHeadRequest,
    SafeHeadResponse,
)
from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.interop import Verdicts
from rollup_node.stages.messages.l1 import L1Heads, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.headers import Header, header_hash
from rollup_node.stages.protocol.hex_encoding import from_hex, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import LogJson, receipt_from_json
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId, BlockRef, Hash, L1BlockRef, L2BlockRef
from rollup_node.tools.devnet.chain.blocks import header_json
from tests.support.chains.fake_l1_chain import plain_header
from tests.support.chains.logs_bloom import logs_bloom
from tests.support.interop.values import Claim, executing_log, plain_log
from tests.support.interop.world import Block, Logs, World
from tests.support.servers.http_listener import json_rpc_app, listening

LOGS_A_RECEIPT = 2


class ServedWorld(World):
    """A World whose blocks have headers and receipts, by hash; `finalized` is L1's finalized block.

    With a `script`, logs by chain and number, the other blocks have none."""

    def __init__(self, config: InteropConfig, seed: int, script: Mapping[tuple[int, int], Logs] | None = None) -> None:
        super().__init__(config, seed)
        self._script = script
        self.headers: dict[Hash, Header] = {}
        self.receipts: dict[Hash, list[dict[str, Any]]] = {}
        self.finalized = 0

    def seal(self, number: int, time: int, parent: Hash, logs: Logs | None) -> Hash:
        """Return the hash of the block's header, and keep header and receipts."""
        receipts = receipts_of(logs or ())
        header = header_of(number, time, parent, receipts, logs is None)
        block_hash = header_hash(header)
        self.headers[block_hash], self.receipts[block_hash] = header, receipts
        return block_hash

    def content(self, chain_id: int, number: int, variant: bytes) -> Logs:
        """Return the logs of a block."""
        if self._script is None:
            return super().content(chain_id, number, variant)
        return self._script.get((chain_id, number), ())

    def l1_ref(self, number: int) -> L1BlockRef:
        """Return a block of L1's chain."""
        return L1BlockRef(self.l1[number], number, self.l1[number - 1] if number else ZERO_HASH, number)


def receipts_of(logs: Logs) -> list[dict[str, Any]]:
    """Return the receipts of a block with these logs; the first, the deposit's, has none."""
    shown = [executing_log(log) if isinstance(log, Claim) else plain_log(log) for log in logs]
    parts = [[], *(shown[i : i + LOGS_A_RECEIPT] for i in range(0, len(shown), LOGS_A_RECEIPT))]
    result, index = [], 0
    for gas, part in enumerate(parts, 1):
        result.append(
            {
                "type": "0x2",
                "status": "0x1",
                "cumulativeGasUsed": hex(gas * 21_000),
                "logsBloom": to_hex(_bloom(part)),
                "logs": [
                    {"address": log.address, "topics": log.topics, "data": log.data, "logIndex": hex(index + at)}
                    for at, log in enumerate(part)
                ],
            }
        )
        index += len(part)
    return result


def _bloom(logs: Sequence[LogJson]) -> bytes:
    return logs_bloom(from_hex(value) for log in logs for value in (log.address, *log.topics))


def header_of(number: int, time: int, parent: Hash, receipts: list[dict[str, Any]], is_replacement: bool) -> Header:
    """Return the header of a block with these receipts."""
    bloom = 0
    for receipt in receipts:
        bloom |= int(receipt["logsBloom"], 16)
    return plain_header(
        number,
        parent,
        time,
        state_root=keccak256(b"state %d" % number + parent),
        transactions_root=keccak256(b"replaced" if is_replacement else b"batch"),
        receipts_root=ordered_root([receipt_from_json(receipt) for receipt in receipts]),
        logs_bloom=bloom.to_bytes(256, "big"),
        gas_used=21_000 * len(receipts),
        withdrawals_root=keccak256(b"messages %d" % number),
    )


class ServedChain:
    """A chain's engine and engine process. While it `is_held` it carries out no transition; `reads` counts calls.

    `missing_history` is the number of the block below which its safe head database has nothing, `start` the block that
    was local safe when the chain started, `finalized` the number of its finalized block. `unsafe` are the engine's
    blocks above the local safe head, while that has not moved."""

    def __init__(self, world: ServedWorld, chain_id: int) -> None:
        self.world, self.chain_id, self.rollup = world, chain_id, world.config.chains[chain_id]
        self.is_held = self.is_away = False
        self.missing_history = 0
        self.reset, self.transition, self.url = 1, 0, ""
        self.start: L2BlockRef | None = None
        self._started = self.finalized = 0
        self.verdicts: list[Verdicts] = []
        self.reads: list[str] = []
        self.unsafe: list[BlockRef] = []
        self._publish: Callable[[EngineStatus], object] = lambda status: None
        self._lead = 10**6
        self._derived: tuple[object, list[Block]] = None, []

    def bind(self, bus: Bus) -> None:
        """Take the place of the chain's engine process."""
        self._publish = bus.publish("status.engine").set
        self._server = bus.serve("engine.control", self._on_request)
        bus.subscribe("status.interop", self.on_verdicts)
        self.publish()

    def unbind(self) -> None:
        """Leave the bus, which is closed."""
        self._publish = lambda status: None

    def blocks(self) -> list[Block]:
        """Return the local safe chain."""
        seen, denied = self.world.seen[self.chain_id], self.world.denied[self.chain_id]
        state = tuple(seen), denied, self._lead
        if state != self._derived[0]:
            last = 0
            while self.world.source(self.chain_id, last + 1) < len(seen):
                last += 1
            time = self.rollup.timestamp_of(min(last, self._lead))
            self._derived = state, self.world.derived(self.chain_id, time) or []
        return self._derived[1]

    def grow_unsafe(self, count: int) -> None:
        """Give the engine blocks that are not derived."""
        last = self.blocks()[-1].ref
        for number in range(last.number + 1, last.number + 1 + count):
            time = self.rollup.timestamp_of(number)
            last = BlockRef(self.world.seal(number, time, last.hash, (b"unsafe",)), number, last.hash, time)
            self.unsafe.append(last)

    def lead_to(self, number: int) -> None:
        """Derive no further than that block."""
        self._lead = number
        self.publish()

    def follow(self) -> None:
        """Read L1, from the start if it has changed."""
        before = self.world.seen[self.chain_id]
        if self.world.l1[: len(before)] != before:
            self.reset += 1
        self.world.follow(self.chain_id)
        self.publish()

    def publish(self) -> None:
        """Publish the heads."""
        blocks = self.blocks()
        ref = _ref(blocks[-1], self.rollup.genesis.l1) if blocks else None
        final = _ref(blocks[self.finalized], self.rollup.genesis.l1) if blocks else None
        if self.start is None or self._started != self.reset:
            self.start, self._started = ref, self.reset
        self._publish(
            EngineStatus(
                self.reset, ref, ref, ref, ref, final, False, False, transition=self.transition, start=self.start
            )
        )

    def restart(self) -> None:
        """Begin another life of the engine process."""
        self.reset, self.transition = self.reset + 1, 0
        self.publish()
        if self.verdicts:
            self._take(self.verdicts[-1])

    def on_verdicts(self, message: Any) -> None:
        if isinstance(message, Verdicts):
            self.verdicts.append(message)
            self._take(message)

    def release(self) -> None:
        """Carry out what has waited."""
        self.is_held = False
        if self.verdicts:
            self._take(self.verdicts[-1])

    def _take(self, message: Verdicts) -> None:
        verdict = message.chains[self.chain_id]
        if self.is_held or verdict.transition <= self.transition:
            return
        denied = frozenset((self.chain_id, block.number, block.hash) for block in verdict.denied)
        if verdict.go_back is not None:
            # What it does not go back over stays as it is.
            kept = {entry for entry in self.world.denied[self.chain_id] if entry[1] <= verdict.go_back.number}
            self.world.denied[self.chain_id] = denied | kept
            self.reset += 1
        self.transition = verdict.transition
        self.publish()

    def _on_request(self, peer: ProcessId, request: Any) -> None:
        assert isinstance(request, L1AtSafeHeadRequest)
        blocks = self.blocks()
        nothing = BlockId(0, ZERO_HASH)
        if request.number < self.missing_history:
            self._server.send(peer, SafeHeadResponse(request.id, L1_HISTORY_UNAVAILABLE, nothing, nothing))
        elif request.number >= len(blocks):
            self._server.send(peer, SafeHeadResponse(request.id, L1_NOT_FOUND, nothing, nothing))
        else:
            l1 = blocks[request.number].l1
            last = [block for block in blocks if block.l1 == l1][-1]
            self._server.send(peer, SafeHeadResponse(request.id, None, l1, BlockId(last.ref.number, last.ref.hash)))

    # --- the engine --------------------------------------------------------------------------------------------------

    def eth_getBlockByNumber(self, name: str, full: bool) -> Any:
        self.reads.append(name)
        refs, number = [block.ref for block in self.blocks()], int(name, 16)
        refs += self.unsafe if self.unsafe and self.unsafe[0].number == len(refs) else []
        if self.is_away or number >= len(refs):
            return None
        block_hash = refs[number].hash
        return {**header_json(self.world.headers[block_hash]), "hash": to_hex(block_hash)}

    def eth_getBlockReceipts(self, block_hash: str) -> Any:
        self.reads.append(block_hash)
        return self.world.receipts.get(from_hex(block_hash))


def _ref(block: Block, origin: BlockId) -> L2BlockRef:
    ref = block.ref
    return L2BlockRef(ref.hash, ref.number, ref.parent_hash, ref.timestamp, origin, 0)


class ServedL1:
    """The l1 process: `asked` are the numbers that were asked for."""

    def __init__(self, world: ServedWorld) -> None:
        self.world, self.asked = world, list[int]()
        self._publish: Callable[[L1Heads], object] = lambda heads: None

    def bind(self, bus: Bus) -> None:
        """Take the place of the l1 process."""
        self._publish = bus.publish("status.l1").set
        self._server = bus.serve("l1.origins", self._on_request)
        self.publish()

    def unbind(self) -> None:
        """Leave the bus, which is closed."""
        self._publish = lambda heads: None

    def publish(self) -> None:
        """Publish the heads as they are now."""
        world = self.world
        final = world.l1_ref(world.finalized) if world.finalized else None
        self._publish(L1Heads(world.l1_ref(len(world.l1) - 1), None, final))

    def _on_request(self, peer: ProcessId, request: Any) -> None:
        assert isinstance(request, L1RefsRequest)
        self.asked.append(request.last)
        known = request.last < len(self.world.l1)
        refs = (self.world.l1_ref(request.last),) if known else ()
        self._server.send(peer, L1RefsResponse(request.last, refs, None))


@asynccontextmanager
async def served_engines(chains: Sequence[ServedChain]) -> AsyncIterator[None]:
    """Serve the engines of chains on loopback; `url` of each says where."""
    apps = [
        json_rpc_app({name: getattr(chain, name) for name in ("eth_getBlockByNumber", "eth_getBlockReceipts")})
        for chain in chains
    ]
    async with listening(*apps) as urls:
        for chain, url in zip(chains, urls, strict=True):
            chain.url = url
        yield
