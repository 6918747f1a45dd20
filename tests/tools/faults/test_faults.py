"""Faults: their scenarios, what they do to JSON and at the proxy's sockets, and the verdict on a scenario."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from rollup_node.tools.faults.damage import damaged
from rollup_node.tools.faults.proxy import FaultProxy
from rollup_node.tools.faults.scenario import (
    Action,
    Fault,
    FaultPlan,
    Role,
    Scenario,
    parse_scenarios,
)
from rollup_node.tools.faults.verdict import Observation, evaluate, summary, table
from rollup_node.tools.importers.fault_cases import SCENARIOS
from tests.support.chains.fake_l1_chain import FakeL1Chain
from tests.support.servers.http_listener import json_rpc_app, listening

# --- scenarios -------------------------------------------------------------------------------------------------------


def test_our_scenarios() -> None:
    scenarios = parse_scenarios(SCENARIOS.read_text())
    assert len(scenarios) >= 150
    faults = [fault for scenario in scenarios for fault in scenario.faults]
    assert {fault.on for fault in faults} == set(Role)
    assert {fault.do for fault in faults} >= set(Action) - {Action.EDIT}
    cases = {case for scenario in scenarios for case in scenario.cases}
    assert {f"F{number}" for number in range(1, 21)} - cases <= {"F8", "F17"}


# --- JSON ------------------------------------------------------------------------------------------------------------

RESULT = {"hash": "0x1a", "transactions": [{"to": "0x01"}, {"to": "0x02"}], "number": 7, "none": None, "yes": True}


def after(action: Action, path: str = "", **fields: Any) -> Any:
    """Return the result after a fault."""
    response = {"jsonrpc": "2.0", "id": 1, "result": RESULT}
    result = damaged(response, Fault(Role.L1, action, path=path, **fields))
    assert response == {"jsonrpc": "2.0", "id": 1, "result": RESULT}, "what is damaged is a copy"
    return result["result"]


@pytest.mark.parametrize(
    ("action", "path", "expected"),
    [
        (Action.EDIT, "hash", {**RESULT, "hash": "new"}),
        (Action.EDIT, "transactions.*.to", {**RESULT, "transactions": [{"to": "new"}, {"to": "new"}]}),
        (Action.EDIT, "", "new"),
        (Action.REMOVE, "transactions.0", {**RESULT, "transactions": [{"to": "0x02"}]}),
        (Action.RETYPE, "hash", {**RESULT, "hash": 26}),
        (Action.RETYPE, "transactions", {**RESULT, "transactions": {"0": {"to": "0x01"}, "1": {"to": "0x02"}}}),
        (Action.FLIP, "hash", {**RESULT, "hash": "0x11"}),
        (Action.FLIP, "transactions.*.to", {**RESULT, "transactions": [{"to": "0x00"}, {"to": "0x01"}]}),
        (Action.SHORT, "transactions", {**RESULT, "transactions": [{"to": "0x01"}]}),
        (Action.REVERSE, "transactions", {**RESULT, "transactions": [{"to": "0x02"}, {"to": "0x01"}]}),
        (Action.DOUBLE, "transactions", {**RESULT, "transactions": [{"to": "0x01"}, {"to": "0x02"}] * 2}),
        (Action.RESULT, "", "new"),
    ],
)
def test_what_is_at_a_path(action: Action, path: str, expected: Any) -> None:
    assert after(action, path, value="new") == expected


# --- the proxy -------------------------------------------------------------------------------------------------------

CHAIN = FakeL1Chain(30)


@asynccontextmanager
async def through(faults: list[Fault]) -> AsyncIterator[FaultProxy]:
    """Provide a proxy before an L1 of 30 blocks."""
    async with listening(json_rpc_app({**CHAIN.methods(5), "eth_blockNumber": lambda: hex(CHAIN.head)})) as (url,):
        proxy = FaultProxy(Role.L1, url)
        await proxy.start()
        try:
            await proxy.set_plan(FaultPlan(faults, random.Random(0)))
            yield proxy
        finally:
            await proxy.stop()


async def post(proxy: FaultProxy, body: Any) -> Any:
    async with aiohttp.ClientSession() as session, session.post(proxy.url, json=body) as response:
        return orjson.loads(await response.read())


def call(method: str, *params: Any, number: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": list(params)}


async def block(proxy: FaultProxy, label: str) -> Any:
    """Return the number of a block, as the proxy shows it; None for no block."""
    load = (await post(proxy, call("eth_getBlockByNumber", label, False)))["result"]
    return None if load is None else int(load["number"], 16)


async def test_a_lagging_endpoint() -> None:
    async with through([Fault(Role.L1, Action.LAG, blocks=4)]) as proxy:
        assert [await block(proxy, label) for label in ("latest", "0x19", "0x1a")] == [25, 25, None]
        batch = [call("eth_getBlockByNumber", label, False, number=n) for n, label in ((1, "0x1a"), (2, "0x19"))]
        result = await post(proxy, batch)
        assert [(item["id"], item["result"] is None) for item in result] == [(1, True), (2, False)]
        both = [call("eth_getBlockByNumber", "0x1b", False, number=n) for n in (1, 2)]
        assert [load["result"] for load in await post(proxy, both)] == [None, None]


# --- the verdict -----------------------------------------------------------------------------------------------------

SCENARIO = Scenario("l1-lost", (Fault(Role.L1, Action.RESET),), names="L1 .* lost", dies=("l1",), recovers=30.0)


def seen(**changes: Any) -> Observation:
    values: dict[str, Any] = {"texts": ["other", "t=5 L1 is lost"], "applied": 4, "recovered_after": 1.5, "lines": 7}
    return Observation(**{**values, **changes})


def test_a_scenario_that_passed() -> None:
    verdict = evaluate(SCENARIO, seen(ended=("l1",), cores=0.3, memory_mb=200.0))
    assert verdict.passed and verdict.named == "t=5 L1 is lost"
    row, total = table([verdict])
    assert row.startswith("ok     l1-lost ") and "1.5 s  200 MB 0.30 cores    7 lines     4 met  L1 is lost" in row
    assert total == "1 scenarios, 0 failed"
    assert summary(verdict)["passed"] is True and summary(verdict)["recovered_after_s"] == 1.5


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"applied": 0}, "no request met a fault"),
        ({"difference": "the output roots differ"}, "the output roots differ"),
        ({"texts": ["nothing"]}, "neither log nor /readyz matched 'L1 .* lost'"),
        ({"ended": ("l1", "rpc")}, "processes ended: rpc"),
        ({"memory_mb": 600.0}, "600 MB of memory, more than 500"),
    ],
)
def test_what_can_be_wrong(changes: dict[str, Any], problem: str) -> None:
    verdict = evaluate(SCENARIO, seen(**changes))
    assert verdict.problems == (problem,) and not verdict.passed
    assert table([verdict])[0].startswith("FAILED") and table([verdict])[1].strip() == problem
    assert table([verdict])[-1] == "1 scenarios, 1 failed"
