"""A beacon chain above a fake L1: block n is in slot n, and sync committees of few keys sign it."""

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from rollup_node.stages.l1.light_client.beacon_json import parse_bootstrap, parse_update
from rollup_node.stages.l1.light_client.containers import (
    BeaconBlockHeader,
    Branch,
    ExecutionPayloadHeader,
    LightClientBootstrap,
    LightClientHeader,
    LightClientUpdate,
    upgraded,
)
from rollup_node.stages.l1.light_client.network import EXECUTION_PAYLOAD, BeaconFork, BeaconNetwork, Preset
from rollup_node.stages.l1.light_client.ssz import ZERO_ROOT, Root, compute_signing_root
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.l1.beacon import Json, bootstrap_json, header_json, update_json
from rollup_node.tools.devnet.l1.signed_headers import CommitteeKeys, prove
from tests.support.servers.http_listener import app_for_every_path

SIZE = 16
PRESET = Preset(SIZE, 8, 4)
"""Sixteen keys, 32 slots a period."""

FORKS = ("altair", "bellatrix", "capella", "deneb", "electra", "fulu", "gloas")
NEVER = 1 << 40


def beacon_network(genesis_time: int = 0, **epochs: int) -> BeaconNetwork:
    """Return a network of all forks up to Fulu, and of Gloas at its epoch if that is given; `epochs` by name."""
    known = {**dict.fromkeys(FORKS[:-1], 0), "gloas": NEVER, **epochs}
    forks = [BeaconFork(name, bytes([index + 1, 0, 0, 7]), known[name]) for index, name in enumerate(FORKS)]
    return BeaconNetwork(
        "test", b"\x11" * 32, genesis_time, (BeaconFork("genesis", b"\0\0\0\7", 0), *forks), PRESET, 12_000
    )


def with_root(network: BeaconNetwork, root: bytes) -> BeaconNetwork:
    """Return the same network with another genesis."""
    return msgspec.structs.replace(network, genesis_validators_root=root)


@cache
def keys_of(seed: bytes, period: int) -> CommitteeKeys:
    """Return the keys of a period."""
    return CommitteeKeys(seed + period.to_bytes(4, "big"), SIZE)


class FakeBeaconChain:
    """`hash_of` returns the execution block hash of a number; the epochs two before the present one are finalized.

    `participants` sign, from the first key on; `lag` are the slots that finality is behind. Its API has no bootstrap
    for `unserved` slots, those of other chains, `bootstrap_of` and `also`, for others; none of the `absent` routes,
    and none at all without `serves`. `events` are what the clients of its stream of events are still to be sent."""

    def __init__(self, network: BeaconNetwork, hash_of: Callable[[int], bytes], seed: bytes = b"honest") -> None:
        self.network, self.seed, self.hash_of = network, seed, hash_of
        self.participants, self.lag = SIZE, 16
        self.head = 0
        self.serves, self.version = True, "Lodestar/v1.40.0"
        self.absent: set[str] = set()
        self.events: list[asyncio.Queue[bytes]] = []
        self.unserved: set[int] = set()
        self.bootstrap_of: FakeBeaconChain = self
        self.also: FakeBeaconChain | None = None
        self._headers: dict[int, tuple[LightClientHeader, Json, dict[int, Branch]]] = {}

    def finalized(self, slot: int) -> int:
        """Return the slot that the state of another one has as finalized, 0 for none."""
        epoch = self.network.preset.slots_per_epoch
        return max(0, (slot - self.lag) // epoch * epoch)

    def root(self, slot: int) -> Root:
        """Return the root of a block."""
        return self.header(slot).beacon.root

    def header(self, slot: int) -> LightClientHeader:
        """Return the header of a slot, in the form of Gloas."""
        return self._block(slot)[0]

    def forget(self, first: int) -> None:
        """Make the headers from a slot on anew, after the chain below has changed."""
        self._headers = {slot: value for slot, value in self._headers.items() if slot < first}

    def bootstrap(self, slot: int) -> LightClientBootstrap:
        """Return the bootstrap of a block."""
        return parse_bootstrap(json.dumps(self.bootstrap_json(slot)).encode(), self.network)

    def bootstrap_json(self, slot: int) -> Json:
        """Return it as a Beacon API does."""
        header, shown, branches = self._block(slot)
        index = self.network.fork_at(slot).indices.current_sync_committee
        committee = keys_of(self.seed, self.network.period_of(slot)).committee
        bootstrap = LightClientBootstrap(header, committee, branches[index])
        return bootstrap_json(bootstrap, shown, self.network.fork_at(slot).name)

    def update(self, slot: int, **options: Any) -> LightClientUpdate:
        """Return what `update_json` does as an object."""
        return parse_update(json.dumps(self.update_json(slot, **options)).encode(), self.network)

    def update_json(
        self, slot: int, signed_at: int | None = None, finality: bool = True, committee: bool = True
    ) -> Json:
        """Return an update whose attested header is of a slot, with or without its further proofs."""
        header, shown, branches = self._block(slot)
        indices, period = self.network.fork_at(slot).indices, self.network.period_of(slot)
        signature_slot = slot + 1 if signed_at is None else signed_at
        domain = self.network.signature_domain(signature_slot)
        bits = [index < self.participants for index in range(SIZE)]
        signers = keys_of(self.seed, self.network.period_of(signature_slot))
        update = LightClientUpdate(
            header,
            signers.sign(compute_signing_root(header.beacon.root, domain), bits),
            signature_slot,
            None,
            branches[indices.finalized_root] if finality else (),
            keys_of(self.seed, period + 1).committee if committee else None,
            branches[indices.next_sync_committee] if committee else (),
        )
        finalized = self._block(self.finalized(slot))[1] if finality and self.finalized(slot) else None
        result = update_json(update, shown, finalized, self.network.fork_at(slot).name)
        return result

    def _block(self, slot: int) -> tuple[LightClientHeader, Json, dict[int, Branch]]:
        if slot not in self._headers:
            self._headers[slot] = self._made(slot)
        return self._headers[slot]

    def _made(self, slot: int) -> tuple[LightClientHeader, Json, dict[int, Branch]]:
        indices, period = self.network.fork_at(slot).indices, self.network.period_of(slot)
        finalized = self.finalized(slot)
        leaves = {
            indices.current_sync_committee: keys_of(self.seed, period).committee.root,
            indices.next_sync_committee: keys_of(self.seed, period + 1).committee.root,
            indices.finalized_root: self.root(finalized) if finalized else ZERO_ROOT,
        }
        state_root, branches = prove(leaves)
        if self.network.fork_at(slot).name == "gloas":
            parent_hash = self.hash_of(slot - 1)
            body_root, proof = prove({indices.block_hash: parent_hash})
            beacon = self._beacon(slot, state_root, body_root)
            header = LightClientHeader(beacon, parent_hash, proof[indices.block_hash])
            return header, header_json(header), branches
        execution = self._execution(slot)
        body_root, proof = prove({EXECUTION_PAYLOAD: execution.root})
        beacon = self._beacon(slot, state_root, body_root)
        header = upgraded(beacon, execution, proof[EXECUTION_PAYLOAD])
        return header, header_json(header, execution, proof[EXECUTION_PAYLOAD]), branches

    def _execution(self, slot: int) -> ExecutionPayloadHeader:
        blobs = (0, 0) if self.network.has_blobs(slot) else (None, None)
        numbers, zero = (slot, 30_000_000, 0, 12 * slot), bytes(32)
        head = (bytes(32), bytes(20), bytes(32), bytes(32), bytes(256), bytes(32))
        return ExecutionPayloadHeader(*head, *numbers, b"test", 7, self.hash_of(slot), zero, zero, *blobs)

    def _beacon(self, slot: int, state_root: Root, body_root: Root) -> BeaconBlockHeader:
        return BeaconBlockHeader(slot, 1, self.seed.ljust(32, b"\0"), state_root, body_root)

    def app(self) -> web.Application:
        """Return a Beacon API that serves light clients up to `head`, which is the block that is attested last."""

        async def handle(request: web.Request) -> web.StreamResponse:
            if request.path == "/eth/v1/events" and "events" not in self.absent:
                return await self._stream(request)
            answer = self._answer(request)
            if answer is None:
                return web.json_response({"code": 404, "message": "not there"}, status=404)
            return web.json_response(answer)

        return app_for_every_path(handle)

    def push(self, event: bytes = b"event: light_client_optimistic_update\ndata: {}\n\n") -> None:
        """Send an event to the clients that listen."""
        for queue in self.events:
            queue.put_nowait(event)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        assert request.query_string == "topics=light_client_optimistic_update"
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.events.append(queue)
        try:
            while True:
                await response.write(await queue.get())
        finally:
            self.events.remove(queue)

    def _answer(self, request: web.Request) -> Any:
        network, path = self.network, request.path
        if path == "/eth/v1/beacon/genesis":
            root = to_hex(network.genesis_validators_root)
            return {"data": {"genesis_time": str(network.genesis_time), "genesis_validators_root": root}}
        if path == "/eth/v1/node/version":
            return {"data": {"version": self.version}}
        if path.startswith("/eth/v1/beacon/headers/"):
            slots = [slot for slot in range(1, self.head + 1) if path.endswith(to_hex(self.root(slot)))]
            return {"data": {"header": {"message": {"slot": str(slots[0])}}}} if slots else None
        route = path.removeprefix("/eth/v1/beacon/light_client/")
        if not self.serves or route in self.absent:
            return None
        if route == "optimistic_update":
            return self.update_json(self.head, finality=False, committee=False)
        if route == "finality_update":
            return self.update_json(self.head, committee=False)
        if route == "updates":
            start, last = int(request.query["start_period"]), network.period_of(self.head)
            periods = range(start, min(start + int(request.query["count"]), last + 1))
            ends = [(period + 1) * network.slots_per_period - 2 for period in periods]
            return [self.update_json(min(end, self.head)) for end in ends]
        if route.startswith("bootstrap/"):
            wanted = route.removeprefix("bootstrap/")
            for source in filter(None, (self.bootstrap_of, self.also)):
                slots = [slot for slot in range(1, self.head + 1) if to_hex(source.root(slot)) == wanted]
                if slots and slots[0] not in self.unserved:
                    return source.bootstrap_json(slots[0])
            return None
        return None
