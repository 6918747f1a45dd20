"""L1 blocks and references from the l1 process: requested until they arrive, read in batches, dropped on
request."""

import asyncio
from pathlib import Path

import pytest

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.engine.process.l1_client import PATIENCE_SECONDS, REPEAT_SECONDS, L1Client
from rollup_node.stages.messages.base import Problem
from rollup_node.stages.messages.l1 import L1BlockResponse, L1BlocksRequest, L1RefsRequest, L1RefsResponse
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses, running_buses
from tests.stages.engine.conftest import Play
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.timing.conditions import until


class L1Process:
    """Answers for references up to `head`, unless it is `silent` or has an `error`. The test moves
    the clock."""

    def __init__(self, chain: ChainFixture, directory: Path) -> None:
        self.chain, self.head, self.silent = chain, 300, False
        self.error: Problem | None = None
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
        if self.silent or isinstance(request, L1BlocksRequest):
            return
        there = request.last <= self.head and self.error is None
        numbers = range(max(0, request.last - request.count + 1), request.last + 1) if there else ()
        refs = tuple(self.chain.l1_ref(number) for number in numbers)
        self.server.send(peer, L1RefsResponse(request.last, refs, self.error))


@pytest.fixture
def l1(chain: ChainFixture, tmp_path: Path) -> L1Process:
    return L1Process(chain, tmp_path)


def test_a_walk_down_reads_more_and_more_at_once(l1: L1Process, chain: ChainFixture, play: Play) -> None:
    async def scene() -> None:
        async with running_buses(l1.buses):
            for number in range(250, 100, -1):
                assert await l1.client.ref(number) == chain.l1_ref(number)
            assert await l1.client.ref(290) == chain.l1_ref(290)

    play(scene())
    assert l1.requests == [
        *(L1RefsRequest(250, 1), L1RefsRequest(249, 16), L1RefsRequest(233, 128), L1RefsRequest(105, 128)),
        L1RefsRequest(290, 1),
    ]


def test_references_are_kept_until_a_fresh_one_is_wanted(l1: L1Process, chain: ChainFixture, play: Play) -> None:
    async def scene() -> None:
        async with running_buses(l1.buses):
            before = await l1.client.ref(200)
            chain.reorg("b", 150)
            assert await l1.client.ref(200) == before
            assert await l1.client.ref(200, fresh=True) == chain.l1_ref(200) != before

    play(scene())
    assert len(l1.requests) == 2


def test_a_block_that_l1_does_not_have_and_one_that_it_cannot_read(l1: L1Process, play: Play) -> None:
    async def scene() -> None:
        async with running_buses(l1.buses):
            assert await l1.client.ref(301) is None
            l1.error = Problem(None, "", "endpoint is away")
            with pytest.raises(TemporaryError, match="L1 block 200 is unavailable: endpoint is away"):
                await l1.client.ref(200)
            l1.error = None
            assert await l1.client.ref(200) is not None

    play(scene())


def test_two_references_may_be_waited_for_at_once(l1: L1Process, chain: ChainFixture, play: Play) -> None:
    async def scene() -> None:
        async with running_buses(l1.buses):
            found = tuple(await asyncio.gather(l1.client.ref(301), l1.client.ref(200), l1.client.ref(302)))
            assert found == (None, chain.l1_ref(200), None)

    play(scene())


def test_an_l1_process_that_does_not_answer(l1: L1Process, play: Play) -> None:
    async def scene() -> None:
        async with running_buses(l1.buses):
            l1.silent = True
            reading = asyncio.create_task(l1.client.ref(200))
            await until(lambda: len(l1.requests) == 1)
            l1.now += 2 * REPEAT_SECONDS
            await until(lambda: len(l1.requests) == 2)
            l1.now += PATIENCE_SECONDS
            with pytest.raises(TemporaryError, match="the l1 process does not answer"):
                await reading

    play(scene())


def test_blocks_are_requested_again_until_others_are(l1: L1Process, chain: ChainFixture, play: Play) -> None:
    async def scene() -> None:
        async with running_buses(l1.buses):
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

    play(scene())
