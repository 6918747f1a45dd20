"""When a replay ends: it waits for data for ever, or up to its timeout, and no further than L1 goes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.tools.inspect import replay_stage
from rollup_node.tools.inspect.replay_stage import (
    IDLE_SECONDS,
    RESET,
    ReplayConfig,
    ReplayFailed,
    ReplayStage,
)
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, block_entry, make_rollup
from tests.tools.conftest import NewBuses

NewStage = Callable[..., ReplayStage]


class ManualClock:
    """Replaces the module `time`; the test moves it."""

    now = 1000.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


TIMEOUT = 20.0


@pytest.fixture
def new_stage(
    chain: ChainFixture, new_buses: NewBuses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NewStage]:
    """Make a stage that writes to the file `err`, with other values of its configuration."""
    monkeypatch.setattr(replay_stage, "time", ManualClock)
    with open(tmp_path / "err", "wb") as errors:
        config = ReplayConfig(chain.rollup, 0, 5, None, "blocks.json", None, RowFormat.JSON, 1, errors.fileno())

        def make(**values: object) -> ReplayStage:
            return ReplayStage(
                msgspec.structs.replace(config, **values), new_buses(tmp_path)["engine"], Meter("engine")
            )

        yield make


@pytest.fixture
def begin(new_stage: NewStage, monkeypatch: pytest.MonkeyPatch) -> NewStage:
    """Make a stage whose derivation has been started."""

    def make(timeout: float | None) -> ReplayStage:
        stage = new_stage(timeout=timeout)
        monkeypatch.setattr(stage, "_pipeline_start", object())
        return stage

    return make


async def test_a_replay_with_a_timeout_continues_while_l1_is_read(chain: ChainFixture, begin: NewStage) -> None:
    stage = begin(TIMEOUT)
    for number in (101, 102, 103):
        ManualClock.now += TIMEOUT - 1
        stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(number), False))
        assert await stage._advance() == IDLE_SECONDS
    ManualClock.now += TIMEOUT + 1
    stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(103), False))
    with pytest.raises(ReplayFailed, match="nothing is derived after block 0"):
        await stage._advance()


async def test_without_a_timeout_a_replay_waits_and_says_what_for(
    chain: ChainFixture, begin: NewStage, tmp_path: Path
) -> None:
    stage = begin(None)
    stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(101), False))
    stage._on_derivation(Health((Problem(None, "", "waiting for 2 blobs"),)))
    for _ in range(100):
        ManualClock.now += 10
        assert await stage._advance() == IDLE_SECONDS
    lines = (tmp_path / "err").read_text().splitlines()
    assert len(lines) == 17, "after 15 s, then one a minute"
    assert lines[0] == "rollup-node: waiting for 20s: nothing is derived after block 0: waiting for 2 blobs"


async def test_a_replay_ends_where_l1_ends_and_not_before(chain: ChainFixture, begin: NewStage) -> None:
    stage = begin(None)
    for idle in (True, False, True):
        stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(101), idle))
        await stage._advance()
        ManualClock.now += ReplayStage.exhausted_timeout - 1
        await stage._advance()
    ManualClock.now += 2
    with pytest.raises(ReplayFailed, match="after block 0: L1 is exhausted at block 101"):
        await stage._advance()


async def test_an_l2_source_that_fails_until_the_timeout_ends_the_replay(
    begin: NewStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = begin(TIMEOUT)

    async def fail() -> float:
        raise TemporaryError("L2 block 5: cannot connect")

    monkeypatch.setattr(stage, "_advance", fail)
    with pytest.raises(TemporaryError):
        await stage._step()
    ManualClock.now += TIMEOUT + 1
    with pytest.raises(ExitRequested) as ended:
        await stage._step()
    assert ended.value.code == EXIT_REPORTED
    assert (tmp_path / "err").read_text() == "rollup-node: L2 block 5: cannot connect\n"


@pytest.mark.parametrize(
    ("is_list", "error"),
    [
        (True, "the L2 source has no block 0, the safe head to begin with: name a block that it has"),
        (False, "{blocks}: expected a list of blocks"),
    ],
)
async def test_an_l2_source_without_the_safe_head_ends_the_replay(
    is_list: bool, error: str, chain: ChainFixture, new_stage: NewStage, tmp_path: Path
) -> None:
    entry, blocks = block_entry(chain.payloads[chain.build(1)[1].hash]), tmp_path / "blocks.json"
    blocks.write_text(json.dumps([entry] if is_list else entry))
    with pytest.raises(ExitRequested) as ended:
        await new_stage(blocks=str(blocks))._step()
    assert ended.value.code == EXIT_REPORTED
    assert (tmp_path / "err").read_text() == f"rollup-node: {error.format(blocks=blocks)}\n"


@pytest.mark.parametrize("first", [2, 3])
async def test_nothing_is_derived_after_the_last_block_before_a_foreign_fork(first: int, new_stage: NewStage) -> None:
    """[LFT9]"""
    rollup = make_rollup(foreign_fork=ForeignFork("Somefork", GENESIS_TIME + 6))
    with pytest.raises(ReplayFailed, match=rf"after block {first}: block 2 is the last .*\(NETWORK-LEFT\)"):
        await new_stage(rollup=rollup, first=first)._advance()
