"""How the conductor starts, stops and replaces the leader, with the RPC servers of two sequencers."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace

from rollup_node.stages.protocol.engine_json import envelope_from_json
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.devnet import conductor_control as module
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application
from rollup_node.tools.devnet.conductor_control import (
    Cluster,
    CommitRefused,
    Control,
    HealthChecks,
    SequencerReport,
    best,
)
from tests.support.p2p.blocks import block, chain


class SequencerServer:
    """A sequencer node as a conductor sees it: its RPC on loopback, with a head that the test moves.

    `head` is its unsafe head, `safe` its safe one; `answers` is whether requests are answered.

    A posted block becomes the head if it is the head's child and `inserts` holds. `calls` are the admin calls."""

    def __init__(self, head: ExecutionPayload) -> None:
        self.head = self.safe = head
        self.active, self.answers, self.inserts = False, True, True
        self.peers: int | None = 1
        self.has_heads = True
        self.calls: list[str] = []
        self.url = ""

    def _status(self) -> dict[str, Any]:
        heads = {"unsafe_l2": self.head, "safe_l2": self.safe}
        return {
            name: {
                "number": block.block_number,
                "hash": to_hex(block.block_hash if self.has_heads else bytes(32)),
                "timestamp": block.timestamp,
            }
            for name, block in heads.items()
        }

    def _start(self, head: str) -> None:
        self.calls.append("start")
        if self.active or head != to_hex(self.head.block_hash):
            raise JsonRpcError(SERVER_ERROR, "block hash does not match")
        self.active = True

    def _stop(self) -> str:
        self.calls.append("stop")
        self.active = False
        return to_hex(self.head.block_hash)

    def _post(self, envelope: Any) -> None:
        self.calls.append("post")
        payload = envelope_from_json(envelope)
        if self.inserts and payload.parent_hash == self.head.block_hash:
            self.head = payload

    def _peer_stats(self) -> dict[str, int]:
        if self.peers is None:
            raise JsonRpcError(SERVER_ERROR, "p2p is disabled")
        return {"connected": self.peers}

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["SequencerServer"]:
        """Listen on loopback; `url` says where."""
        methods: dict[str, Method] = {
            "optimism_syncStatus": self._status,
            "admin_sequencerActive": lambda: self.active,
            "opp2p_peerStats": self._peer_stats,
            "admin_startSequencer": self._start,
            "admin_stopSequencer": self._stop,
            "admin_postUnsafePayload": self._post,
        }
        app = application(JsonRpc(methods))
        app.middlewares.append(self._gate)
        listener = Listener(app, 0)
        await listener.start()
        self.url = listener.url
        try:
            yield self
        finally:
            await listener.stop()

    @web.middleware
    async def _gate(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not self.answers:
            return web.Response(status=503)
        response: web.StreamResponse = await handler(request)
        return response


UNSAFE_INTERVAL = 6.0
SERVERS = ("sequencer", "sequencer-2")
BLOCKS = chain(6)
FIRST, SECOND = BLOCKS[:2]


@pytest.fixture(autouse=True)
def no_late_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sequencer that does not answer refuses at once; on a machine that is busy others may take their time."""
    monkeypatch.setattr(module, "POLL_SECONDS", 20.0)


def recent_chain(count: int, age: float = 0.0) -> list[ExecutionPayload]:
    """Linked blocks, the last of which is so many seconds old."""
    last = int(time.time() - age)
    blocks: list[ExecutionPayload] = []
    for number in range(1, count + 1):
        parent = blocks[-1].block_hash if blocks else bytes(32)
        blocks.append(block(4, number, parent, timestamp=last - count + number))
    return blocks


def twin(payload: ExecutionPayload) -> ExecutionPayload:
    """Another block with the same parent."""
    changed = replace(payload, gas_used=payload.gas_used + 1)
    return replace(changed, block_hash=payload_block_hash(changed))


class Network:
    """Two sequencers and their conductor, whose steps the test makes; `replaced` is what it finds out about L1."""

    def __init__(self, head: ExecutionPayload) -> None:
        self.first, self.second = SequencerServer(head), SequencerServer(head)
        self.cluster = Cluster(SERVERS)
        self.replaced = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Network"]:
        async with asyncio.timeout(20), self.first.serving(), self.second.serving():
            urls = dict(zip(SERVERS, (self.first.url, self.second.url), strict=True))
            self.control = Control(self.cluster, urls, HealthChecks(UNSAFE_INTERVAL), self._is_replaced, 0.5)
            try:
                yield self
            finally:
                for client in self.control.sequencers.values():
                    await client.close()

    async def _is_replaced(self, last: ExecutionPayload, report: SequencerReport) -> bool:
        return self.replaced

    async def step(self, times: int = 1) -> None:
        for _ in range(times):
            await self.control.step()

    def commit(self, *payloads: ExecutionPayload) -> None:
        for payload in payloads:
            self.cluster.commit(self.cluster.leader, payload)

    def says(self, text: str) -> bool:
        """Whether an event has that text."""
        return any(text in event for event in self.control.events)


def run(head: ExecutionPayload) -> AbstractAsyncContextManager[Network]:
    return Network(head).running()


async def test_the_leader_is_started_on_its_head_and_others_are_stopped() -> None:
    (only,) = recent_chain(1)
    async with run(only) as network:
        network.second.active = True
        await network.step()
        assert network.first.active and not network.second.active
        assert network.says("sequencer leads and was started at block 1")
        await network.step(2)
        assert (network.first.calls, network.second.calls) == (["start"], ["stop"])


async def test_a_leader_that_does_not_answer_is_replaced_by_one_that_gets_the_committed_blocks() -> None:
    blocks = recent_chain(4)
    async with run(blocks[0]) as network:
        await network.step()
        network.commit(*blocks[1:])
        network.first.head = blocks[-1]
        network.first.answers = False
        await network.step()
        assert network.cluster.leader == "sequencer", "its rpc process may be starting again"
        await network.step(2)
        assert network.cluster.leader == "sequencer-2" and network.control.failovers == 1
        assert network.second.calls == ["post"] * 3 + ["start"] and network.second.head == blocks[-1]
        assert network.says("sequencer is unhealthy, it does not answer; sequencer-2 leads")
        assert network.says("sequencer-2 leads and was started at block 4, ")
        network.first.answers = True
        await network.step()
        assert not network.first.active and network.second.active


async def test_a_leader_whose_head_is_stuck_is_replaced_once_it_had_time() -> None:
    (old,) = recent_chain(1, age=60)
    async with run(old) as network:
        await network.step()
        assert network.first.active, "the head was old before it led"
        network.control._leads_since -= UNSAFE_INTERVAL + 1
        await network.step()
        assert network.cluster.leader == "sequencer-2"
        await network.step()
        assert network.second.active and not network.first.active


def report(number: int = 10, peers: int | None = 2) -> SequencerReport:
    return SequencerReport(number, b"\x01" * 32, 100, 90, 5, b"\x02" * 32, peers, True)


@pytest.mark.parametrize(
    ("checks", "peers", "now", "since", "expected"),
    [
        (HealthChecks(6), 2, 106.0, 0.0, None),
        (HealthChecks(6), 2, 106.5, 0.0, "its unsafe head 10 has not advanced for 6.5 s"),
        (HealthChecks(6), 2, 106.5, 103.0, None),
        (HealthChecks(6), 2, 110.0, 103.0, "its unsafe head 10 has not advanced for 7.0 s"),
        (HealthChecks(60, safe_interval=12), 2, 102.5, 0.0, "its safe head 5 has not advanced for 12.5 s"),
        (HealthChecks(60, safe_interval=12), 2, 102.5, 95.0, None),
        (HealthChecks(60, min_peers=2), 2, 101.0, 0.0, None),
        (HealthChecks(60, min_peers=3), 2, 101.0, 0.0, "it has 2 peers"),
        (HealthChecks(60, min_peers=1), None, 101.0, 0.0, "it has 0 peers"),
        (HealthChecks(60), None, 101.0, 0.0, None),
    ],
)
def test_health(checks: HealthChecks, peers: int | None, now: float, since: float, expected: str | None) -> None:
    assert checks.problem(report(peers=peers), now, since) == expected


def test_the_next_leader() -> None:
    reports = {"a": report(9), "b": report(12), "c": None}
    assert best(reports, {}) == "b"
    assert best(reports, {"b": "it has 0 peers"}) == "a", "a healthy one, though its head is lower"
    assert best(reports, {"a": "bad", "b": "bad", "c": "bad"}) == "b"
    assert best({"c": None}, {"c": "it does not answer"}) is None


def committed(count: int) -> Cluster:
    cluster = Cluster(SERVERS)
    for payload in BLOCKS[:count]:
        assert cluster.commit("sequencer", payload)
    return cluster


@pytest.mark.parametrize("payload", [twin(BLOCKS[2]), BLOCKS[1], BLOCKS[4]], ids=["twin", "older", "gap"])
def test_a_block_that_does_not_extend_is_refused_unless_the_last_one_was_replaced(payload: ExecutionPayload) -> None:
    cluster = committed(3)
    assert not cluster.extends(payload)
    with pytest.raises(CommitRefused, match=rf"^block {payload.block_number} .* does not extend block 3 "):
        cluster.commit("sequencer", payload)
    assert cluster.last == BLOCKS[2]
    assert cluster.commit("sequencer", payload, is_replaced=True)
    assert cluster.last == payload and cluster.after(payload.block_hash) == []
    assert len(cluster.blocks) == 4, "what was committed stays on record"


def test_the_blocks_that_a_server_lacks() -> None:
    cluster = committed(4)
    assert cluster.after(BLOCKS[3].block_hash) == []
    assert cluster.after(BLOCKS[1].block_hash) == BLOCKS[2:4]
    assert cluster.after(BLOCKS[0].parent_hash) == BLOCKS[:4], "the parent of the first one needs all"
    assert cluster.after(b"\x77" * 32) is None
    assert Cluster(SERVERS).after(bytes(32)) is None
