"""Probes and comparisons of L1 endpoints, with real servers."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.endpoint_pool import EndpointFault
from rollup_node.stages.l1.head_tracker import HeadTracker
from rollup_node.stages.l1.process import endpoint_checks
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.process.endpoint_checks import IDLE_SECONDS, EndpointChecks
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.servers.http_listener import Methods, json_rpc_app
from tests.support.servers.l1_endpoints import served


class Checked:
    """The checks of endpoints with these methods, after the heads of `chain` were polled."""

    def __init__(self, endpoints: L1Endpoints, chain: FakeL1Chain, config: L1Config) -> None:
        self.endpoints, self.tracker, self.times_checked = endpoints, HeadTracker(), 0
        for number in range(max(0, chain.head - 8), chain.head + 1):
            self.tracker.update_head(chain.ref(number))
        self.checks = EndpointChecks(endpoints, self.tracker, config, self._on_checked)

    def _on_checked(self) -> None:
        self.times_checked += 1

    @property
    def faults(self) -> list[EndpointFault | None]:
        return [verdict and verdict.fault for verdict in self.endpoints.pool.verdicts]

    @property
    def reasons(self) -> list[str]:
        return [verdict.reason for verdict in self.endpoints.pool.verdicts if verdict is not None]

    def let_pauses_pass(self) -> None:
        """As if every pause were over."""
        pool = self.endpoints.pool
        for index, verdict in enumerate(pool.verdicts):
            if verdict is not None:
                pool.verdicts[index] = verdict._replace(until=time.monotonic())

    async def step(self) -> float:
        self.let_pauses_pass()
        return await self.checks.step()


@asynccontextmanager
async def running_checks(servers: Sequence[Methods], chain: FakeL1Chain, **options: Any) -> AsyncIterator[Checked]:
    async with served(*map(json_rpc_app, servers), **options) as (config, endpoints, _):
        yield Checked(endpoints, chain, config)


def recent_chain(length: int = 40, age: int = 0) -> FakeL1Chain:
    """Whose head has that age in seconds."""
    return FakeL1Chain(length, int(time.time()) - 12 * (length - 1) - age)


async def test_an_endpoint_is_used_again_once_it_does_well() -> None:
    chain = recent_chain()
    methods, down = chain.methods(5), [True]

    def by_number(number: str, full: bool) -> Any:
        if down[0]:
            raise JsonRpcError(-32000, "database is down")
        return methods["eth_getBlockByNumber"](number, full)

    async with running_checks([{**methods, "eth_getBlockByNumber": by_number}, methods], chain) as checked:
        first, second = checked.endpoints.all
        checked.endpoints.set_aside(first, EndpointFault.UNREACHABLE, "no answer")
        assert checked.endpoints.pick() is second
        await checked.step()
        assert checked.endpoints.pick() is second and checked.faults == [EndpointFault.FAILING, None]
        assert "database is down" in checked.reasons[0]
        down[0] = False
        await checked.step()
        assert checked.endpoints.pick() is first and checked.reasons == []


async def test_the_only_endpoint_is_asked_nothing() -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("probed")

    async with running_checks([{"eth_chainId": never, "eth_getBlockByNumber": never}], recent_chain()) as checked:
        assert await checked.step() == IDLE_SECONDS
        checked.endpoints.set_aside(checked.endpoints.all[0], EndpointFault.THROTTLED, "429")
        await checked.step()
        assert checked.faults == [None]


@pytest.mark.condition("C2")
@pytest.mark.parametrize("wrong", [0, 1, 2])
async def test_the_endpoint_that_contradicts_two_others_is_set_aside(wrong: int) -> None:
    chain, other = recent_chain(), recent_chain()
    other.reorg(20, 20)
    servers = [other if index == wrong else chain for index in range(3)]
    async with running_checks([server.methods(5) for server in servers], chain) as checked:
        await checked.step()
        assert [fault is EndpointFault.FORKED for fault in checked.faults] == [index == wrong for index in range(3)]
        assert checked.times_checked == 1 and checked.checks.disagreement is None
        await checked.step()
        assert checked.faults[wrong] is EndpointFault.FORKED
        checked.checks.on_new_head(True)
        assert checked.endpoints.pick() is checked.endpoints.all[1 if wrong == 0 else 0]


@pytest.mark.condition("C2")
async def test_of_two_that_contradict_each_other_the_first_is_used_and_it_is_a_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chain, other = recent_chain(), recent_chain()
    other.reorg(20, 20)
    async with running_checks([chain.methods(5), other.methods(5)], chain) as checked:
        checked.endpoints.set_aside(checked.endpoints.all[0], EndpointFault.FORKED, "for a test")
        await checked.step()
        assert checked.endpoints.pick() is checked.endpoints.all[0]
        assert "disagree on block 36" in str(checked.checks.disagreement)
        other.headers, other._hashes = chain.headers, chain._hashes
        checked.checks.on_new_head(True)
        await checked.step()
        assert checked.checks.disagreement is None
    lines = capsys.readouterr()
    text = lines.out + lines.err
    assert text.count("code=L1-DISAGREE") == 1 and "block=36" in text


@pytest.mark.fault("F6")
async def test_endpoints_of_another_chain_and_behind_are_named() -> None:
    """By the first comparison, and by the probe after their pauses."""
    chain = recent_chain()
    async with running_checks([chain.methods(5), chain.methods(6), FakeL1Chain(20).methods(5)], chain) as checked:
        for times in (1, 2):
            await checked.step()
            assert checked.faults == [None, EndpointFault.OTHER_CHAIN, EndpointFault.BEHIND]
            assert "does not have block 36; its head is 19" in checked.reasons[1]
            assert [verdict.times for verdict in checked.endpoints.pool.verdicts if verdict] == [times] * 2


@pytest.mark.condition("C2")
@pytest.mark.parametrize("is_recent", [True, False])
async def test_a_fork_with_more_blocks_than_that_of_the_majority_is_found(is_recent: bool) -> None:
    """[LHD27] The majority's blocks at its heads are younger than a minute; older ones may be those of a stuck node."""
    fork = recent_chain(60)
    majority = FakeL1Chain(60, fork.headers[0].timestamp)
    majority._genesis_time += 12 * (10 if is_recent else 4)
    majority.reorg(20, 10)
    servers = [fork.methods(5), *[majority.methods(5)] * 2]
    async with running_checks(servers, fork) as checked:
        await checked.step()
        behind = EndpointFault.BEHIND
        assert checked.faults == ([EndpointFault.FORKED, None, None] if is_recent else [None, behind, behind])
        if is_recent:
            assert "its block 49 is" in checked.reasons[0]
            assert checked.endpoints.pick() is checked.endpoints.all[1]


@pytest.mark.fault("F11")
async def test_a_head_that_stands_still_has_the_endpoints_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one in use is at block 39 while another one is far beyond."""
    monkeypatch.setattr(endpoint_checks, "STUCK_POLLS", 0)
    stuck = recent_chain(40, age=240)
    moving = FakeL1Chain(60, stuck.headers[0].timestamp)
    async with running_checks([stuck.methods(5), moving.methods(5)], stuck) as checked:
        checked.checks._compare_at += 300
        await checked.step()
        assert checked.faults == [EndpointFault.BEHIND, None]


async def test_before_the_head_is_known_nothing_is_compared() -> None:
    chain = recent_chain()
    async with running_checks([chain.methods(5)] * 2, chain) as checked:
        checked.tracker.drop_finalized()
        checked.endpoints.set_aside(checked.endpoints.all[0], EndpointFault.BEHIND, "for a test")
        assert await checked.step() <= endpoint_checks.HEADLESS_SECONDS
        assert checked.times_checked == 0 and checked.faults == [None, None]
