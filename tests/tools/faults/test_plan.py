"""Which faults a request meets."""

import random

from rollup_node.tools.faults.plan import FaultPlan, Request, clipped_call, concerns
from rollup_node.tools.faults.scenario import Action, Fault, Role


def call(method: str, *params: object) -> dict[str, object]:
    return {"id": 1, "method": method, "params": list(params)}


def test_by_endpoint_method_and_path() -> None:
    faults = [
        Fault(Role.L1, Action.HANG, method="Receipt"),
        Fault(Role.BEACON, Action.HTML, method="genesis spec"),
        Fault(Role.L1, Action.RESET),
    ]
    plan = FaultPlan(faults, random.Random(0))
    assert plan.of(Request(Role.L1, "/", (call("eth_getBlockReceipts"),))) == [faults[0], faults[2]]
    assert plan.of(Request(Role.L1, "/", (call("eth_chainId"), call("eth_getTransactionReceipt")))) == [
        faults[0],
        faults[2],
    ]
    assert plan.of(Request(Role.BEACON, "/eth/v1/config/spec")) == [faults[1]]
    assert plan.of(Request(Role.BEACON, "/eth/v1/beacon/blobs/5")) == []
    assert plan.of(Request(Role.ENGINE, "/", (call("eth_chainId"),))) == []
    assert plan.applied == 3
    assert concerns(faults[0], call("eth_getBlockReceipts")) and not concerns(faults[0], call("eth_chainId"))


def test_every_nth_and_by_chance() -> None:
    request = Request(Role.L1, "/", (call("eth_chainId"),))
    third = FaultPlan([Fault(Role.L1, Action.RESET, every=3)], random.Random(0))
    assert [bool(third.of(request)) for _ in range(7)] == [False, False, True, False, False, True, False]
    half = [FaultPlan([Fault(Role.L1, Action.RESET, chance=0.5)], random.Random(5)) for _ in range(2)]
    met = [[bool(plan.of(request)) for _ in range(200)] for plan in half]
    assert met[0] == met[1] and 60 < sum(met[0]) < 140


def test_a_chain_that_ends_earlier() -> None:
    assert clipped_call(call("eth_getBlockByNumber", "latest", True), 5) == call("eth_getBlockByNumber", "0x5", True)
    assert clipped_call(call("eth_getBlockByNumber", "0x6", True), 5) is None
    assert clipped_call(call("eth_getBlockByNumber", "0x5", True), 5) is not None
    for other in (call("eth_chainId"), call("eth_getBlockByNumber", "finalized"), call("eth_getBlockByNumber")):
        assert clipped_call(other, 5) == other


def test_by_the_first_parameter() -> None:
    fault = Fault(Role.L1, Action.RESULT, method="eth_getBlockByNumber", param="finalized")
    plan = FaultPlan([fault], random.Random(0))
    wanted, other = call("eth_getBlockByNumber", "finalized", False), call("eth_getBlockByNumber", "latest", False)
    assert plan.of(Request(Role.L1, "/", (other, wanted))) == [fault] and plan.of(Request(Role.L1, "/", (other,))) == []
    assert concerns(fault, wanted) and not concerns(fault, other) and not concerns(fault, call("eth_getBlockByNumber"))
