"""Polling the block labels: which heads are accepted, and how failures are reported."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.head_tracker import HeadTracker, NewestBlock
from rollup_node.stages.l1.process import head_poller
from rollup_node.stages.l1.process.client import L1Endpoint, L1Endpoints
from rollup_node.stages.l1.process.head_poller import DISPROOFS, SUBSCRIBED_POLL_SECONDS, HeadPoller
from rollup_node.stages.protocol.answer_limits import AnswerLimit
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.chains.fake_l1_chain import BLOCK_TIME, FakeL1Chain
from tests.support.servers.http_listener import Methods, json_rpc_app, listening
from tests.support.servers.l1_endpoints import ROLLUP, served
from tests.support.servers.web_socket_server import UNREADABLE_DATE, WebSocketServer, web_socket_url
from tests.support.timing.manual_clock import ManualClock


class PolledHeads:
    """A poller, its tracker, and what it reported."""

    def __init__(self, config: L1Config, endpoints: L1Endpoints) -> None:
        self.tracker = HeadTracker()
        self.awaited = False
        self.newest = NewestBlock[L1Endpoint](config.poll_interval, lambda number: self.awaited)
        self.new_heads: list[bool] = []
        self.finality_polls = 0
        self.meter = Meter("l1")
        self.poller = HeadPoller(
            config, endpoints, self.tracker, self.newest, self.meter, self.new_heads.append, self._on_finality_polled
        )

    def _on_finality_polled(self) -> None:
        self.finality_polls += 1


@asynccontextmanager
async def running_poller(methods: Methods, **options: Any) -> AsyncIterator[PolledHeads]:
    async with served(json_rpc_app(methods), **options) as (config, endpoints, _):
        yield PolledHeads(config, endpoints)


@pytest.mark.fault("F8")
async def test_a_web_socket_endpoint_notifies_of_new_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD3, LHD4, WSK6] One that missed a head for half of the time between polls is subscribed to again over another
    connection, and one that refuses subscriptions is polled."""
    clock, chain = ManualClock(1000.0), FakeL1Chain(10)
    monkeypatch.setattr(head_poller, "time", SimpleNamespace(monotonic=clock, time=time.time))
    server = WebSocketServer(chain.methods(5))
    woken = asyncio.Event()
    async with listening(server.app) as (url,):
        config = L1Config((web_socket_url(url),), (ROLLUP,), timeout=2.0, poll_interval=0)
        endpoints = L1Endpoints(config, Meter("l1"), woken.set)
        polled = PolledHeads(config, endpoints)
        assert await polled.poller.poll_head() == SUBSCRIBED_POLL_SECONDS
        polled.awaited = True
        clock.now += 100
        chain.extend(1)
        await server.notify()
        async with asyncio.timeout(5):
            await woken.wait()
        await polled.poller.poll_head()
        assert polled.tracker.head == chain.ref(10) and len(server.handshakes) == 1
        assert polled.newest.take(10) is not None, "the notification says that there is a new block"

        for seconds, handshakes in ((30.0, 1), (30.1, 2)):
            clock.now += seconds
            chain.extend(1)
            for _ in range(2):
                await polled.poller.poll_head()
            assert len(server.handshakes) == handshakes and len(server.subscribers) == 1

        server.refuses_subscriptions = True
        await server.drop_connections()
        assert await _interval_when_up(polled) == SUBSCRIBED_POLL_SECONDS
        assert server.subscribers == []

        server.refuse = lambda: web.Response(status=403, headers={"Date": UNREADABLE_DATE})
        await server.drop_connections()
        while "HTTP status 403 in the WebSocket handshake" not in await _failure(polled):
            await asyncio.sleep(0.02)
        await endpoints.close()


async def _failure(polled: PolledHeads) -> str:
    """Return the error of a poll that fails."""
    with pytest.raises(TemporaryError) as caught:
        await polled.poller.poll_head()
    return str(caught.value)


async def _interval_when_up(polled: PolledHeads) -> float:
    """Return the pause after the first poll that succeeds."""
    while True:
        try:
            return await polled.poller.poll_head()
        except TemporaryError:
            await asyncio.sleep(0.02)


async def test_new_heads_and_reorgs_are_reported() -> None:
    """[LHD3]"""
    chain = FakeL1Chain(10)
    async with running_poller(chain.methods(5)) as polled:
        for _ in range(2):
            assert await polled.poller.poll_head() == 12.0
        chain.extend(1)
        await polled.poller.poll_head()
        chain.reorg(1, 2)
        await polled.poller.poll_head()
        assert polled.tracker.head == chain.ref(11)
        assert polled.new_heads == [False, False, True]
        assert b"l1_reorg_depth_count 1.0" in polled.meter.text()


@pytest.mark.parametrize(("interval", "seconds"), [(12.0, 300.0), (100.0, 500.0)])
async def test_what_stands_still_is_named_after_its_time(
    interval: float, seconds: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A head after five minutes or five polls; a finalized block after an hour in which the head has changed."""
    clock, chain = ManualClock(0.0), FakeL1Chain(10)
    monkeypatch.setattr(head_poller, "time", SimpleNamespace(monotonic=clock, time=time.time))
    async with running_poller(chain.methods(5, finalized=FakeL1Chain(10)), poll_interval=interval) as polled:

        async def problems_at(now: float) -> list[str]:
            clock.now = now
            await polled.poller.poll_head()
            await polled.poller.poll_finality()
            return [problem.text for problem in polled.poller.problems]

        clock.now = 4000
        assert polled.poller.problems == (), "there is no head yet"
        assert await problems_at(4000) == await problems_at(4000 + seconds) == []
        (text,) = await problems_at(4001 + seconds)
        assert text.endswith(f"has not changed for {seconds + 1:.0f} s")
        chain.extend(1)
        assert await problems_at(4000 + 3600) == [] and "FINALITY-STALE" not in capsys.readouterr().err
        assert await problems_at(4001 + 3600) == []
        assert capsys.readouterr().err.count("code=FINALITY-STALE") == 1


@pytest.mark.condition("C3")
@pytest.mark.parametrize("interval", (BLOCK_TIME, BLOCK_TIME / 2, BLOCK_TIME / 4))
async def test_at_the_tip_a_poll_brings_the_whole_block(interval: float) -> None:
    """[LHD25] Only where a client waits for it, and polls are rare enough to find a new one."""
    chain = FakeL1Chain(10)
    async with running_poller(chain.methods(5), poll_interval=interval) as polled:
        for polled.awaited in (False, True, True, True):
            chain.extend(1)
            await polled.poller.poll_head()
            taken = polled.newest.take(chain.head)
            assert (taken is not None) == chain.asked[-1][1] and polled.tracker.head == chain.ref(chain.head)
        expected = [False, False, True, True] if interval * 2 >= BLOCK_TIME else [False] * 4
        assert [full for _, full in chain.asked] == expected
        await polled.poller.poll_head()
        assert polled.newest.take(chain.head) is None, "the head is the same"


async def test_a_new_head_whose_block_is_too_large_for_a_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """[LHD24, LHD25]"""
    monkeypatch.setattr(head_poller, "ORDINARY_L1_BLOCK", AnswerLimit(500, 500))
    chain = FakeL1Chain(10)
    async with running_poller(chain.methods(5)) as polled:
        polled.awaited = True
        for _ in range(3):
            chain.extend(1)
            await polled.poller.poll_head()
            assert polled.tracker.head == chain.ref(chain.head) and polled.newest.take(chain.head) is None


async def test_a_head_that_changes_between_two_old_blocks_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A balancer before two nodes that are both stuck shows the newer block and its parent in turn."""
    clock, chain = ManualClock(1000.0), FakeL1Chain(10)
    monkeypatch.setattr(head_poller, "time", SimpleNamespace(monotonic=clock, time=time.time))
    labels = {"latest": 8}

    def block_by_number(number: str, full: bool) -> Any:
        return chain.methods(5)["eth_getBlockByNumber"](hex(labels.get(number, 0)), full)

    async with running_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": block_by_number}) as polled:
        for number in (8, 9, 8, 9):
            labels["latest"] = number
            await polled.poller.poll_head()
        for number in (8, 9) * 15:
            assert polled.poller.problems == () or clock.now > 1300
            clock.now += 12
            labels["latest"] = number
            await polled.poller.poll_head()
        assert polled.tracker.head == chain.ref(9) and polled.new_heads == [False, False]
        assert [problem.text for problem in polled.poller.problems] == [
            f"the L1 head {chain.ref(9)} has not changed for 360 s"
        ]


async def test_a_finalized_block_that_its_chain_does_not_have_any_more_is_dropped_after_several_polls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[LHD23]"""
    chain = FakeL1Chain(10)
    async with running_poller(chain.methods(5)) as polled:
        await polled.poller.poll_finality()
        before = polled.tracker.finalized
        chain.reorg(9, 9)
        for _ in range(DISPROOFS - 1):
            assert await polled.poller.poll_finality() == 12.0
            assert polled.poller.contradiction is not None and "another chain" in polled.poller.contradiction
            assert polled.tracker.finalized == before != chain.ref(3)
        await polled.poller.poll_finality()
        assert polled.tracker.finalized is None
        await polled.poller.poll_head()
        assert polled.new_heads == [True]
        await polled.poller.poll_finality()
        assert polled.tracker.finalized is None, "too soon for other processes to have seen it"
        monkeypatch.setattr(head_poller, "DROPPED_SECONDS", 0.0)
        await polled.poller.poll_finality()
        assert polled.tracker.finalized == chain.ref(3)
        assert not polled.poller.contradiction


async def test_an_endpoint_whose_finality_is_behind_contradicts_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """[LHD23] Its beacon node is an epoch behind that of the endpoint before; another one is asked soon."""
    chain, labels = FakeL1Chain(10), {"finalized": 5}

    def block_by_number(number: str, full: bool) -> Any:
        return chain.methods(5)["eth_getBlockByNumber"](hex(labels[number]) if number in labels else number, full)

    async with running_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": block_by_number}) as polled:
        assert await polled.poller.poll_finality() == 384.0
        for finalized, interval in ((4, 12.0), (3, 12.0), (6, 384.0)):
            labels["finalized"] = finalized
            assert await polled.poller.poll_finality() == interval
            assert polled.tracker.finalized == chain.ref(max(finalized, 5)) and polled.poller.problems == ()
        assert "L1-CONTRADICTS" not in capsys.readouterr().err


async def test_a_finalized_block_is_disproved_by_polls_in_a_row_alone() -> None:
    """[LHD23] One node of several behind a URL is on another fork, while L1 finalizes nothing."""
    chain, fork = FakeL1Chain(10), FakeL1Chain(10)
    fork.reorg(9, 9)
    served = [chain]

    def block_by_number(number: str, full: bool) -> Any:
        return served[-1].methods(5)["eth_getBlockByNumber"](number, full)

    async with running_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": block_by_number}) as polled:
        await polled.poller.poll_finality()
        for _ in range(DISPROOFS + 1):
            served.append(fork)
            assert await polled.poller.poll_finality() == 12.0
            assert polled.tracker.finalized == chain.ref(3)
            served.append(chain)
            assert await polled.poller.poll_finality() == 384.0


@pytest.mark.condition("C8")
async def test_a_head_without_the_finalized_block_is_refused_until_several_polls_agree() -> None:
    """[LHD23]"""
    chain = FakeL1Chain(40)
    async with running_poller(chain.methods(5)) as polled:
        await polled.poller.poll_head()
        await polled.poller.poll_finality()
        chain.reorg(30, 50)
        for _ in range(DISPROOFS - 1):
            with pytest.raises(TemporaryError, match="does not have the finalized block 33"):
                await polled.poller.poll_head()
        await polled.poller.poll_head()
        assert (polled.tracker.head, polled.tracker.finalized) == (chain.ref(59), None)
        assert polled.new_heads == [False, True]


@pytest.mark.fault("F6")
@pytest.mark.parametrize("is_fresh", [True, False])
async def test_only_a_fresh_head_disproves_a_higher_finalized_block(is_fresh: bool) -> None:
    """[LHD23]"""
    age = 0 if is_fresh else 86_400
    higher, chain = FakeL1Chain(60), FakeL1Chain(20, int(time.time()) - 19 * BLOCK_TIME - age)
    served = [higher]

    def block_by_number(number: str, full: bool) -> Any:
        return served[-1].methods(5)["eth_getBlockByNumber"](number, full)

    async with running_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": block_by_number}) as polled:
        await polled.poller.poll_head()
        await polled.poller.poll_finality()
        served.append(chain)
        for _ in range(DISPROOFS + 2):
            try:
                await polled.poller.poll_head()
            except TemporaryError as error:
                assert "below the finalized block 53" in str(error)
        assert polled.tracker.head == (chain if is_fresh else higher).ref(19 if is_fresh else 59)
        assert polled.tracker.finalized == (None if is_fresh else higher.ref(53))


@pytest.mark.fault("F6")
@pytest.mark.parametrize("age", [0, 1200])
async def test_before_any_finality_an_endpoint_far_behind_rolls_nothing_back(age: int) -> None:
    """[LHD23] The one before it has failed. A fresh head that is lower is that of the chain."""
    now = int(time.time())
    higher = FakeL1Chain(200, now - 199 * BLOCK_TIME)
    lower = FakeL1Chain(60, now - 59 * BLOCK_TIME - age)
    served = [higher]

    def block_by_number(number: str, full: bool) -> Any:
        return served[-1].methods(5)["eth_getBlockByNumber"](number, full)

    async with running_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": block_by_number}) as polled:
        await polled.poller.poll_head()
        served.append(lower)
        for _ in range(5):
            lower.extend(1)
            if age:
                assert "far behind" in await _failure(polled)
            else:
                await polled.poller.poll_head()
        assert polled.tracker.head == (higher.ref(199) if age else lower.ref(64))
        assert polled.new_heads == ([False] if age else [False, True, False, False])


async def test_the_chain_id_is_asked_for_again_when_a_head_does_not_link() -> None:
    chain = FakeL1Chain(10)
    asked: list[int] = []
    chain_ids = [5, 5, 1337]

    def chain_id() -> str:
        asked.append(chain.head)
        return hex(chain_ids[min(len(asked), 3) - 1])

    async with running_poller({**chain.methods(5), "eth_chainId": chain_id}) as polled:
        await polled.poller.poll_head()
        for _ in range(3):
            chain.extend(1)
            await polled.poller.poll_head()
        assert set(asked) == {9}
        asked.append(0)
        chain.extend(2)
        with pytest.raises(TemporaryError, match="is on L1 chain 1337"):
            await polled.poller.poll_head()
        assert polled.tracker.head == chain.ref(12)


@pytest.mark.fault("F10")
@pytest.mark.parametrize("label", ["safe", "finalized"])
async def test_a_label_above_the_head_is_refused(label: str) -> None:
    """[LHD23]"""
    async with running_poller(FakeL1Chain(10).methods(5, **{label: FakeL1Chain(30)})) as polled:
        await polled.poller.poll_finality()
        assert (polled.tracker.safe is None) == (label == "safe" or polled.poller.contradiction is not None)
        assert (polled.tracker.finalized is None) == (label == "finalized")


async def test_a_finalized_block_above_the_last_polled_head_has_the_head_polled() -> None:
    chain = FakeL1Chain(10)
    async with running_poller(chain.methods(5)) as polled:
        await polled.poller.poll_head()
        chain.extend(20)
        await polled.poller.poll_finality()
        assert (polled.tracker.head, polled.tracker.finalized) == (chain.ref(29), chain.ref(23))
        assert polled.poller.contradiction is None


@pytest.mark.fault("F10")
@pytest.mark.condition("C8")
async def test_without_a_finalized_block_the_next_poll_comes_soon() -> None:
    unknown = JsonRpcError(-32602, "invalid params: unknown label")
    async with running_poller(FakeL1Chain(10).methods(5, safe=unknown, finalized=unknown, latest=unknown)) as polled:
        assert await polled.poller.poll_finality() == 12.0
        with pytest.raises(TemporaryError, match=r"L1 latest block: .*unknown label"):
            await polled.poller.poll_head()
