"""The reasons of a node that is not ready."""

from rollup_node.stages.messages.engine import EngineStatus
from rollup_node.stages.messages.l1 import L1Heads
from rollup_node.stages.protocol.types import ZERO_L1_REF, ZERO_L2_REF
from rollup_node.stages.rpc.readiness import not_ready_reasons

L1 = L1Heads(ZERO_L1_REF, None, None)
ENGINE = EngineStatus(1, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, ZERO_L2_REF, False, False)
AGES = {"l1": 0.5, "engine": 0.1}


def test_ready() -> None:
    assert not_ready_reasons({"l1": ()}, AGES, L1, ENGINE) == []


def test_each_reason() -> None:
    assert not_ready_reasons({"l1": ("endpoint is away",)}, AGES, L1, ENGINE) == ["l1: endpoint is away"]
    assert not_ready_reasons({}, {"l1": None, "engine": 3.5}, L1, ENGINE) == [
        "l1: no status received yet",
        "engine: no status for 3.5 s",
    ]
    searching = EngineStatus(1, None, None, None, None, None, False, False)
    for l1, engine in ((None, None), (L1Heads(None, None, None), searching)):
        assert not_ready_reasons({}, AGES, l1, engine) == [
            "l1: L1 head not known yet",
            "engine: L2 heads not known yet",
        ]
