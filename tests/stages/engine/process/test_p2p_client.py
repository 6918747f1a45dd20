"""What is requested from the p2p process, and how long a block is sent to it."""

from pathlib import Path

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.process.p2p_client import MAX_PUBLISHING, MAX_PUBLISHING_SECONDS, P2PClient
from rollup_node.stages.io.metrics.meter import Meter
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
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.stages.engine.conftest import Play
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.timing.conditions import until


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


def test_a_block_is_sent_again_until_it_is_published(chain: ChainFixture, tmp_path: Path, play: Play) -> None:
    parent, ref = chain.build(1)
    payload = chain.payloads[ref.hash]

    async def scene() -> None:
        peers = Peers(tmp_path)
        async with running_buses(peers.buses):
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

    play(scene())


def test_publishing_ends_with_an_error_by_age_or_number(chain: ChainFixture, tmp_path: Path, play: Play) -> None:
    parent, ref = chain.build(1)
    payload = chain.payloads[ref.hash]

    async def scene() -> None:
        peers = Peers(tmp_path)
        async with running_buses(peers.buses):
            for _ in range(MAX_PUBLISHING + 1):
                peers.client.publish(payload, parent, 0)
            assert peers.errors() == 1
            await until(lambda: len(peers.received) == MAX_PUBLISHING + 1)
            peers.send(PublishResponse(2, "node has no p2p signer"))
            await until(lambda: peers.errors() == 2)
            peers.now += MAX_PUBLISHING_SECONDS + 1
            peers.client.repeat(7)
            assert peers.errors() == MAX_PUBLISHING + 1

    play(scene())


def test_the_latest_blocks_are_requested_after_those_that_are_not_published_yet(
    chain: ChainFixture, tmp_path: Path, play: Play
) -> None:
    """[SEQ39] The p2p process counts them among the latest then, whatever became of the first message."""
    parent, ref = chain.build(1)
    payload = chain.payloads[ref.hash]

    async def scene() -> None:
        peers = Peers(tmp_path)
        async with running_buses(peers.buses):
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

    play(scene())
