"""The end of a chain that left the OP Stack."""

import msgspec
import pytest

from rollup_node.stages.protocol.config import ForeignFork, RollupConfig
from rollup_node.stages.protocol.foreign_fork import end_text, network_left
from tests.support.chains.chain_fixture import chain_with

CHAIN = chain_with()
GENESIS = CHAIN.rollup.genesis


def leaving(seconds: int) -> RollupConfig:
    """The chain with a foreign fork so many seconds after genesis; its blocks come every 2 s."""
    return msgspec.structs.replace(CHAIN.rollup, foreign_fork=ForeignFork("Somefork", GENESIS.l2_time + seconds))


@pytest.mark.parametrize(("seconds", "last"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_the_last_block_is_the_one_before_the_time_of_the_fork(seconds: int, last: int) -> None:
    """[LFT2]"""
    config = leaving(seconds)
    assert config.block_time == 2
    assert config.last_block == GENESIS.l2.number + last
    times = [GENESIS.l2_time + config.block_time * number for number in (last, last + 1)]
    assert [config.is_foreign(time) for time in times] == [False, True]
    assert [config.ends_at(last + step) for step in (-1, 0, 1)] == [False, True, True]


def test_other_chains_have_no_end() -> None:
    config = CHAIN.rollup
    assert config.last_block is None and not config.is_foreign(1 << 62) and not config.ends_at(1 << 62)
    assert end_text(config) == ""


def test_the_error_names_the_last_block_and_the_fork() -> None:
    error = network_left(leaving(4), CHAIN.build(3)[3])
    assert str(error) == (
        "the safe head is block 3, and block 1 is the last that can be derived, Somefork began at 1970-01-01T00:16:44Z"
    )
