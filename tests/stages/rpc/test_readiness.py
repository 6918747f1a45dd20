"""What keeps a node from being ready."""

from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.types import ZERO_L1_REF, ZERO_L2_REF
from rollup_node.stages.rpc.readiness import reasons

L1 = L1Heads(ZERO_L1_REF, None, None)
ENGINE = EngineStatus(1, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, False, False)
AGES = {"l1": 0.5, "engine": 0.1}


def test_ready() -> None:
    assert reasons({"l1": ()}, AGES, L1, ENGINE) == []


def test_each_reason() -> None:
    assert reasons({"l1": ("endpoint is away",)}, AGES, L1, ENGINE) == ["l1: endpoint is away"]
    assert reasons({}, {"l1": None, "engine": 3.5}, L1, ENGINE) == [
        "l1: not heard of yet",
        "engine: not heard of for 3.5 s",
    ]
    searching = EngineStatus(1, None, None, None, None, None, False, False)
    for l1, engine in ((None, None), (L1Heads(None, None, None), searching)):
        assert reasons({}, AGES, l1, engine) == ["l1: no L1 head yet", "engine: no start yet"]
