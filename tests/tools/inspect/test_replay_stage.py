"""When a replay ends: it waits for data for ever, or up to its timeout, and no further than L1 goes."""

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.derivation import DerivationStatus
from rollup_node.stages.protocol.config import ForeignFork
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.headers import encode_header
from rollup_node.stages.protocol.payloads import payload_header
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.bench.in_process import in_process_buses
from rollup_node.tools.inspect import replay_stage
from rollup_node.tools.inspect.replay_stage import EXHAUSTED_TIMEOUT, IDLE_SECONDS, RESET, ReplayFailed, ReplayStage
from rollup_node.tools.inspect.row_formats import RowFormat
from tests.support.chains.chain_fixture import GENESIS_TIME, ChainFixture, make_rollup

Begin = Callable[[float | None], ReplayStage]


class ManualClock:
    """Replaces the module `time`; the test moves it."""

    now = 1000.0

    @classmethod
    def monotonic(cls) -> float:
        return cls.now


TIMEOUT = 20.0


@pytest.fixture
def begin(chain: ChainFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    """Yield a stage whose derivation has been started, with standard error in the file `err`."""
    monkeypatch.setattr(replay_stage, "time", ManualClock)
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(("l1", "derivation", "engine", "rpc"), 1))
    with open(tmp_path / "err", "wb") as errors:

        def begin(timeout: float | None) -> ReplayStage:
            config = replay_stage.ReplayConfig(
                chain.rollup, 0, 5, None, "blocks.json", None, RowFormat.JSON, 1, errors.fileno(), timeout
            )
            stage = ReplayStage(config, buses["engine"], Meter("engine"))
            monkeypatch.setattr(stage, "_pipeline_start", object())
            return stage

        yield begin
    for bus in buses.values():
        bus.close()


def test_a_replay_with_a_timeout_continues_while_l1_is_read(chain: ChainFixture, begin: Begin) -> None:
    stage = begin(TIMEOUT)
    for number in (101, 102, 103):
        ManualClock.now += TIMEOUT - 1
        stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(number), False, 0))
        assert asyncio.run(stage._advance()) == IDLE_SECONDS
    ManualClock.now += TIMEOUT + 1
    stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(103), False, 1))
    with pytest.raises(ReplayFailed, match="nothing is derived after block 0"):
        asyncio.run(stage._advance())


def test_without_a_timeout_a_replay_waits_and_says_what_for(chain: ChainFixture, begin: Begin, tmp_path: Path) -> None:
    stage = begin(None)
    stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(101), False, 0))
    stage._on_derivation(Health((Problem(None, "", "waiting for 2 blobs"),)))
    for _ in range(100):
        ManualClock.now += 10
        assert asyncio.run(stage._advance()) == IDLE_SECONDS
    lines = (tmp_path / "err").read_text().splitlines()
    assert len(lines) == 17, "after 15 s, then one a minute"
    assert lines[0] == "rollup-node: waiting for 20s: nothing is derived after block 0: waiting for 2 blobs"


def test_a_replay_ends_where_l1_ends_and_not_before(chain: ChainFixture, begin: Begin) -> None:
    stage = begin(None)
    for idle in (True, False, True):
        stage._on_derivation(DerivationStatus(RESET, chain.l1_ref(101), idle, 0))
        asyncio.run(stage._advance())
        ManualClock.now += EXHAUSTED_TIMEOUT - 1
        asyncio.run(stage._advance())
    ManualClock.now += 2
    with pytest.raises(ReplayFailed, match="after block 0: L1 is exhausted at block 101"):
        asyncio.run(stage._advance())


def test_an_l2_source_that_fails_until_the_timeout_ends_the_replay(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = begin(TIMEOUT)

    async def fail() -> float:
        raise TemporaryError("L2 block 5: cannot connect")

    monkeypatch.setattr(stage, "_advance", fail)
    with pytest.raises(TemporaryError):
        asyncio.run(stage._step())
    ManualClock.now += TIMEOUT + 1
    with pytest.raises(ExitRequested) as ended:
        asyncio.run(stage._step())
    assert ended.value.code == EXIT_REPORTED
    assert (tmp_path / "err").read_text() == "rollup-node: L2 block 5: cannot connect\n"


@pytest.mark.parametrize(
    ("is_list", "error"),
    [
        (True, "the L2 source has no block 0, the safe head to begin with: name a block that it has"),
        (False, "{blocks}: expected a list of blocks"),
    ],
)
def test_an_l2_source_without_the_safe_head_ends_the_replay(
    is_list: bool, error: str, chain: ChainFixture, tmp_path: Path
) -> None:
    first = chain.payloads[chain.build(1)[1].hash]
    header = encode_header(payload_header(first)).hex()
    entry = {"header_rlp": header, "txs": [raw.hex() for raw in first.transactions]}
    blocks = tmp_path / "blocks.json"
    blocks.write_text(json.dumps([entry] if is_list else entry))
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(("l1", "derivation", "engine", "rpc"), 1))
    with open(tmp_path / "err", "wb") as errors:
        config = replay_stage.ReplayConfig(
            chain.rollup, 0, 5, None, str(blocks), None, RowFormat.JSON, 1, errors.fileno()
        )
        stage = ReplayStage(config, buses["engine"], Meter("engine"))
        with pytest.raises(ExitRequested) as ended:
            asyncio.run(stage._step())
    assert ended.value.code == EXIT_REPORTED
    assert (tmp_path / "err").read_text() == f"rollup-node: {error.format(blocks=blocks)}\n"
    for bus in buses.values():
        bus.close()


@pytest.mark.parametrize("first", [2, 3])
def test_nothing_is_derived_after_the_last_block_before_a_foreign_fork(first: int, tmp_path: Path) -> None:
    """[LFT9]"""
    rollup = make_rollup(foreign_fork=ForeignFork("Somefork", GENESIS_TIME + 6))
    buses = in_process_buses(CHANNELS, tmp_path, dict.fromkeys(("l1", "derivation", "engine", "rpc"), 1))
    config = replay_stage.ReplayConfig(rollup, first, 5, None, "blocks.json", None, RowFormat.JSON, 1, 2)
    stage = ReplayStage(config, buses["engine"], Meter("engine"))
    with pytest.raises(ReplayFailed, match=rf"after block {first}: block 2 is the last .*\(NETWORK-LEFT\)"):
        asyncio.run(stage._advance())
    for bus in buses.values():
        bus.close()
