"""The channel configuration: each part takes its older form until derivation reads the newer one."""

import pytest

from rollup_node.stages.protocol.forks.schedule import ForkSchedule
from rollup_node.tools.batcher.channel_config import ChannelConfig, supported_config
from rollup_node.tools.batcher.channels import Compression

SCHEDULE = ForkSchedule({"regolith": 0, "canyon": 0, "delta": 20, "ecotone": 30, "fjord": 40}, 2, 300, 600)
NEWEST = ChannelConfig(True, True, Compression.BROTLI)
OLDEST = ChannelConfig(False, False, Compression.ZLIB)


@pytest.mark.parametrize(
    ("l1_time", "origin_time", "expected"),
    [
        (19, 19, OLDEST),
        (20, 18, OLDEST),
        (20, 20, ChannelConfig(True, False, Compression.ZLIB)),
        (29, 20, ChannelConfig(True, False, Compression.ZLIB)),
        (30, 19, ChannelConfig(False, True, Compression.ZLIB)),
        (39, 36, ChannelConfig(True, True, Compression.ZLIB)),
        (40, 38, NEWEST),
    ],
)
def test_supported_config_by_fork(l1_time: int, origin_time: int, expected: ChannelConfig) -> None:
    assert supported_config(NEWEST, SCHEDULE, l1_time, origin_time) == expected
    assert supported_config(OLDEST, SCHEDULE, l1_time, origin_time) == OLDEST
