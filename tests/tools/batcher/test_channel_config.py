"""Nothing is posted in a form before derivation takes it."""

import pytest

from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.tools.batcher.channel_config import Form, form_in_force
from rollup_node.tools.batcher.channels import Compression

SCHEDULE = ForkSchedule({"regolith": 0, "canyon": 0, "delta": 20, "ecotone": 30, "fjord": 40}, 2, 300, 600)
BEST = Form(True, True, Compression.BROTLI)
PLAIN = Form(False, False, Compression.ZLIB)


@pytest.mark.parametrize(
    ("l1_time", "origin_time", "expected"),
    [
        (19, 19, PLAIN),
        (20, 18, PLAIN),
        (20, 20, Form(True, False, Compression.ZLIB)),
        (29, 20, Form(True, False, Compression.ZLIB)),
        (30, 19, Form(False, True, Compression.ZLIB)),
        (39, 36, Form(True, True, Compression.ZLIB)),
        (40, 38, BEST),
    ],
)
def test_the_best_form_in_force(l1_time: int, origin_time: int, expected: Form) -> None:
    assert form_in_force(BEST, SCHEDULE, l1_time, origin_time) == expected
    assert form_in_force(PLAIN, SCHEDULE, l1_time, origin_time) == PLAIN
