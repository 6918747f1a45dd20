"""L1 blocks and references from the l1 process: requested until they arrive, read in batches, dropped on
request."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.process.bus_clients import (
    MAX_PUBLISHING,
    MAX_PUBLISHING_SECONDS,
    REPEAT_SECONDS,
    L1Client,
    P2PClient,
)
from rollup_node.stages.io.log.logger import Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.messages.p2p import (
    GapEnd,
    LatestBlocksRequest,
    LatestBlocksResponse,
    PublishRequest,
    PublishResponse,
    UnsafeBlock,
    UnsafeBlocksRequest,
)
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.timing.conditions import until


class L1Process:
    """Answers for references. The test moves the clock."""

    def __init__(self, chain: ChainFixture, directory: Path) -> None:
        self.chain = chain
        self.requests: list[L1BlocksRequest | L1RefsRequest] = []
        self.blocks: list[L1BlockResponse] = []
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "l1": 1})
        self.server = self.buses["l1"].serve("l1.origins", self._take)
        self.engine: ProcessId | None = None
        self.now = 0.0
        self.client = L1Client(self.buses["engine"], self.blocks.append, lambda: self.now)

    def _take(self, peer: ProcessId, request: L1BlocksRequest | L1RefsRequest) -> None:
        self.engine = peer
        self.requests.append(request)
        if isinstance(request, L1RefsRequest):
            numbers = range(max(0, request.last - request.count + 1), request.last + 1)
            refs = tuple(self.chain.l1_ref(number) for number in numbers)
            self.server.send(peer, L1RefsResponse(request.last, refs, None))


@pytest.fixture
async def l1(chain: ChainFixture, tmp_path: Path) -> AsyncIterator[L1Process]:
    result = L1Process(chain, tmp_path)
    async with running_buses(result.buses):
        yield result


async def test_a_walk_down_reads_more_and_more_at_once(l1: L1Process, chain: ChainFixture) -> None:
    for number in range(250, 100, -1):
        assert await l1.client.ref(number) == chain.l1_ref(number)
    assert await l1.client.ref(290) == chain.l1_ref(290)
    assert l1.requests == [
        *(L1RefsRequest(250, 1), L1RefsRequest(249, 16), L1RefsRequest(233, 128), L1RefsRequest(105, 128)),
        L1RefsRequest(290, 1),
    ]


async def test_references_are_kept_until_a_fresh_one_is_wanted(l1: L1Process, chain: ChainFixture) -> None:
    before = await l1.client.ref(200)
    chain.reorg("b", 150)
    assert await l1.client.ref(200) == before
    assert await l1.client.ref(200, fresh=True) == chain.l1_ref(200) != before
    assert len(l1.requests) == 2


async def test_blocks_are_requested_again_until_others_are(l1: L1Process, chain: ChainFixture) -> None:
    l1.now = 10.0
    for first in (100, 100, 101):
        l1.client.request(first, 2)
    l1.now += 2 * REPEAT_SECONDS
    l1.client.request(101, 2)
    await until(lambda: len(l1.requests) == 3)
    assert l1.requests == [L1BlocksRequest(100, 2), L1BlocksRequest(101, 2), L1BlocksRequest(101, 2)]
    assert l1.engine is not None
    for number in (100, 103, 101, 102):
        l1.server.send(l1.engine, L1BlockResponse(chain.l1(number)))
    await until(lambda: len(l1.blocks) == 2)
    assert [message.block.header.number for message in l1.blocks] == [101, 102], "only what is wanted now"


class Peers:
    """A p2p process that notes what it receives, and the client of an engine process, on a clock that a test moves."""

    def __init__(self, directory: Path) -> None:
        self.now = 1_000.0
        self.meter = Meter("engine")
        self.received: list[UnsafeBlocksRequest | LatestBlocksRequest | PublishRequest] = []
        self.blocks: list[UnsafeBlock | LatestBlocksResponse] = []
        self.engine: ProcessId | None = None
        self.buses = in_process_buses(CHANNELS, directory, {"engine": 1, "p2p": 1})
        self.server = self.buses["p2p"].serve("p2p.blocks", self._take)
        self.client = P2PClient(self.buses["engine"], self.meter, self.blocks.append, lambda: self.now)

    def _take(self, peer: ProcessId, message: UnsafeBlocksRequest | LatestBlocksRequest | PublishRequest) -> None:
        self.engine = peer
        self.received.append(message)

    def send(self, *messages: UnsafeBlock | LatestBlocksResponse | PublishResponse) -> None:
        assert self.engine is not None
        for message in messages:
            assert self.server.send(self.engine, message)

    def errors(self) -> float:
        """Publishing errors so far."""
        lines = self.meter.text().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("op_node_default_publishing_errors_t"))


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[Peers]:
    result = Peers(tmp_path)
    async with running_buses(result.buses):
        yield result


async def test_a_block_is_sent_again_until_it_is_published(chain: ChainFixture, peers: Peers) -> None:
    parent, payload = chain.genesis, chain.payloads[chain.build(1)[1].hash]
    peers.client.publish(payload, parent, 0)
    peers.client.repeat(0)
    await until(lambda: len(peers.received) == 2)
    assert peers.received == [PublishRequest(1, payload, parent, 0), UnsafeBlocksRequest(0, None)]
    peers.now += 1.1
    peers.client.repeat(7)
    await until(lambda: len(peers.received) == 4)
    assert peers.received[2:] == [UnsafeBlocksRequest(7, None), PublishRequest(1, payload, parent, 0)]
    peers.send(PublishResponse(1, None), PublishResponse(99, "of no request"), UnsafeBlock(payload))
    await until(lambda: peers.blocks == [UnsafeBlock(payload)])
    peers.now += 1.1
    peers.client.repeat(8)
    peers.client.request(9, payload)
    await until(lambda: len(peers.received) == 6)
    gap = GapEnd(1, payload.block_hash, payload.parent_hash)
    assert peers.received[4:] == [UnsafeBlocksRequest(8, None), UnsafeBlocksRequest(9, gap)]
    assert peers.errors() == 0


async def test_publishing_ends_with_an_error_by_age_or_number(
    chain: ChainFixture, peers: Peers, engine_log: list[Record]
) -> None:
    """The log has each reason once in a row."""
    parent, payload = chain.genesis, chain.payloads[chain.build(1)[1].hash]
    for _ in range(MAX_PUBLISHING + 1):
        peers.client.publish(payload, parent, 0)
    assert peers.errors() == 1
    await until(lambda: len(peers.received) == MAX_PUBLISHING + 1)
    peers.send(PublishResponse(2, "node has no p2p signer"))
    await until(lambda: peers.errors() == 2)
    peers.now += MAX_PUBLISHING_SECONDS + 1
    peers.client.repeat(7)
    assert peers.errors() == MAX_PUBLISHING + 1
    reasons = ["too many newer blocks are not published either", "node has no p2p signer"]
    assert [line.fields["error"] for line in engine_log] == [*reasons, "the p2p process did not publish it in time"]


async def test_the_latest_blocks_are_requested_after_those_that_are_not_published_yet(
    chain: ChainFixture, peers: Peers
) -> None:
    """[SEQ39] The p2p process counts them among the latest then, whatever became of the first message."""
    parent, payload = chain.genesis, chain.payloads[chain.build(1)[1].hash]
    peers.client.publish(payload, parent, 0)
    peers.client.request_latest(parent.id)
    await until(lambda: len(peers.received) == 3)
    publish = PublishRequest(1, payload, parent, 0)
    assert peers.received == [publish, publish, LatestBlocksRequest(parent.id)]
    response = LatestBlocksResponse(parent.id, (payload,))
    peers.send(PublishResponse(1, None), response)
    await until(lambda: peers.blocks == [response])
    peers.client.request_latest(parent.id)
    await until(lambda: len(peers.received) == 4)
