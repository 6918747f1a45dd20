"""Polling the block labels: which heads are accepted, and how failures are reported."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from rollup_node.stages.io.metrics import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.head_tracker import HeadTracker
from rollup_node.stages.l1.process import head_poller
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.process.head_poller import HeadPoller
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.fake_l1_chain import FakeL1Chain
from tests.support.http_listener import Methods, json_rpc_app, listening
from tests.support.plain_rollup import PLAIN_ROLLUP
from tests.support.stage_runner import run_within

ROLLUP = msgspec.structs.replace(PLAIN_ROLLUP, l1_chain_id=5)


class PolledHeads:
    """A poller, its tracker, and what it reported."""

    def __init__(self, config: L1Config, endpoints: L1Endpoints) -> None:
        self.tracker = HeadTracker()
        self.new_heads: list[bool] = []
        self.finality_polls = 0
        self.meter = Meter("l1")
        self.poller = HeadPoller(
            config, endpoints, self.tracker, self.meter, self.new_heads.append, self._on_finality_polled
        )

    def _on_finality_polled(self) -> None:
        self.finality_polls += 1


def with_poller(methods: Methods, scenario: Callable[[PolledHeads], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with listening(json_rpc_app(methods)) as urls:
            config = L1Config(urls, ROLLUP, timeout=2.0, **options)
            endpoints = L1Endpoints(config, Meter("l1"))
            try:
                await scenario(PolledHeads(config, endpoints))
            finally:
                await endpoints.close()

    run_within(20, main)


def test_new_heads_and_reorgs_are_reported() -> None:
    """[LHD3]"""
    chain = FakeL1Chain(10)

    async def scenario(polled: PolledHeads) -> None:
        for _ in range(2):
            assert await polled.poller.poll_head() == 12.0
        chain.extend(1)
        await polled.poller.poll_head()
        chain.reorg(1, 2)
        await polled.poller.poll_head()
        assert polled.tracker.head == chain.ref(11)
        assert polled.new_heads == [False, False, True]
        assert b"l1_reorg_depth_count 1.0" in polled.meter.text()

    with_poller(chain.methods(5), scenario)


def test_safe_and_finalized_block() -> None:
    """[LHD6]"""
    chain = FakeL1Chain(10)

    async def scenario(polled: PolledHeads) -> None:
        assert await polled.poller.poll_finality() == 384.0
        assert (polled.tracker.safe, polled.tracker.finalized) == (chain.ref(6), chain.ref(3))
        chain.reorg(9, 9)
        await polled.poller.poll_finality()
        assert polled.poller.contradiction is not None and "another chain" in polled.poller.contradiction
        assert polled.tracker.finalized != chain.ref(3)
        chain.extend(1)
        await polled.poller.poll_finality()
        assert polled.poller.contradiction is None
        assert polled.finality_polls == 3

    with_poller(chain.methods(5), scenario)


def test_without_a_finalized_block_the_next_poll_comes_soon() -> None:
    def by_label(label: str, full: bool) -> Any:
        raise JsonRpcError(-32602, "invalid params: unknown label")

    async def scenario(polled: PolledHeads) -> None:
        assert await polled.poller.poll_finality() == 12.0
        with pytest.raises(TemporaryError, match=r"L1 latest block: .*unknown label"):
            await polled.poller.poll_head()

    with_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": by_label}, scenario)


def test_no_latest_block_is_temporary() -> None:
    async def scenario(polled: PolledHeads) -> None:
        with pytest.raises(TemporaryError, match="has no latest block"):
            await polled.poller.poll_head()

    with_poller({"eth_chainId": lambda: "0x5", "eth_getBlockByNumber": lambda *_: None}, scenario)


def test_a_head_that_does_not_change_for_long_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(head_poller, "STUCK_SECONDS", -1.0)

    async def scenario(polled: PolledHeads) -> None:
        for _ in range(4):
            await polled.poller.poll_head()

    with_poller(FakeL1Chain(3).methods(5), scenario, poll_interval=-1.0)
    assert capsys.readouterr().err.count("L1 head does not change") == 1
