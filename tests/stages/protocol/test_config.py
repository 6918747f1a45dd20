"""The rollup config's derived values."""

import msgspec
import pytest

from rollup_node.stages.protocol.config import Genesis, RollupConfig, SystemConfig
from rollup_node.stages.protocol.types import ZERO_HASH, BlockId
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

GENESIS = Genesis(
    BlockId(1, b"\x01" * 32), BlockId(105, b"\x02" * 32), 1000, SystemConfig(bytes(20), ZERO_HASH, ZERO_HASH, 1)
)
CONFIG = msgspec.structs.replace(
    PLAIN_ROLLUP,
    genesis=GENESIS,
    max_sequencer_drift=700,
    channel_timeout=200,
    fork_times={"regolith": 0, "granite": 500},
)


def test_block_numbers_by_time() -> None:
    """[CFG32]"""
    assert [CONFIG.block_number_at(time) for time in (1000, 1001, 1002, 1999)] == [105, 105, 106, 604]
    with pytest.raises(ValueError, match=r"did not reach genesis time \(1000\) yet"):
        CONFIG.block_number_at(999)


def test_the_schedule_is_built_once() -> None:
    assert CONFIG.schedule() is CONFIG.schedule()
    copy = msgspec.msgpack.decode(msgspec.msgpack.encode(CONFIG), type=RollupConfig)
    assert copy == CONFIG and copy.schedule() is CONFIG.schedule()
    other = msgspec.structs.replace(CONFIG, block_time=1)
    assert other.schedule() is not CONFIG.schedule()


def test_the_schedule_has_the_values_of_the_chain() -> None:
    schedule = CONFIG.schedule()
    assert schedule.l1(499).channel_timeout == 200 and schedule.l1(500).channel_timeout == 50
    assert schedule.epoch(0).max_sequencer_drift == 700
