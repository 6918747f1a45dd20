"""The conductor's client of a sequencer."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rollup_node.tools.devnet.conductor.sequencers import CallFailed, SequencerClient
from tests.support.engine.sequencer_servers import SequencerServer
from tests.support.p2p.blocks import chain

FIRST, SECOND = chain(2)


def with_client(test: Callable[[SequencerServer, SequencerClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with SequencerServer(FIRST).serving() as server:
            client = SequencerClient("sequencer", server.url)
            try:
                await test(server, client)
            finally:
                await client.close()

    asyncio.run(run())


def test_a_report_survives_one_poll_without_an_answer() -> None:
    async def scenario(server: SequencerServer, client: SequencerClient) -> None:
        report = await client.poll()
        assert report is not None
        assert (report.head_number, report.head_hash, report.peers, report.active) == (1, FIRST.block_hash, 1, False)
        assert (report.head_time, report.safe_time) == (FIRST.timestamp, FIRST.timestamp)
        server.answers = False
        assert await client.poll() == report
        assert await client.poll() is None and client.report is None
        server.answers, server.peers = True, None
        again = await client.poll()
        assert again is not None and again.peers is None
        server.has_heads = False
        await client.poll()
        assert await client.poll() is None, "a reset node has no heads to start from"

    with_client(scenario)


def test_admin_calls() -> None:
    async def scenario(server: SequencerServer, client: SequencerClient) -> None:
        await client.post(SECOND)
        assert server.head == SECOND
        with pytest.raises(CallFailed, match="block hash does not match"):
            await client.start(FIRST.block_hash)
        await client.start(SECOND.block_hash)
        assert server.active
        assert await client.stop() == "0x" + SECOND.block_hash.hex() and not server.active

    with_client(scenario)
