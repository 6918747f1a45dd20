"""What derivation waits for, by a clock of the test [LOG17]."""

import pytest

from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.pipeline.deriver import Output
from rollup_node.stages.derivation.process.wait_clock import WaitClock
from rollup_node.stages.messages.derivation import DerivationWaits
from rollup_node.stages.protocol.commitments import Commitment
from rollup_node.stages.protocol.types import L1BlockRef
from tests.stages.derivation.process.test_derivation_log import TASK

BLOCK = L1BlockRef(b"\1" * 32, 1, b"\0" * 32, 12)


@pytest.mark.parametrize(
    ("need", "waits"),
    [
        (outputs.NeedL1Block(5), DerivationWaits(l1=3)),
        (outputs.NeedChallenges(5), DerivationWaits(l1=3)),
        (outputs.NeedBlobs(BLOCK, ()), DerivationWaits(blobs=3)),
        (outputs.NeedInput(BLOCK, Commitment(0, bytes(32))), DerivationWaits(blobs=3)),
        (outputs.NeedDecoded(b"", TASK), DerivationWaits(compute=3)),
        (outputs.NeedL2Blocks(1, 2), DerivationWaits(engine=3)),
        (outputs.AwaitSafeHead(), DerivationWaits(engine=3)),
        (None, DerivationWaits(engine=3)),
    ],
)
def test_each_need_has_its_process(need: Output | None, waits: DerivationWaits) -> None:
    now = [0.0]
    clock = WaitClock(lambda: now[0])
    clock.waits_for(need)
    now[0] += 3.9
    clock.rests()
    now[0] += 100.0
    clock.works()
    assert clock.waits == waits
    for _ in range(3):
        now[0] += 0.4
        clock.works()
    assert clock.waits.derivation == 1
