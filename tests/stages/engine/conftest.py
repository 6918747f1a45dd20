"""Fixtures of the engine's tests: a small chain, an execution engine that has it, and the stage on that engine."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.protocol.config import RollupConfig
from tests.support.chains.chain_fixture import ALL_FORKS, ChainFixture, make_rollup
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine

Run = Callable[..., AbstractAsyncContextManager[EngineNode]]
"""The stage on the running engine; arguments are those of EngineNode."""
RunOn = Callable[[FakeExecutionEngine], Run]


@pytest.fixture
def rollup() -> RollupConfig:
    return make_rollup()


@pytest.fixture
def chain(rollup: RollupConfig) -> ChainFixture:
    return ChainFixture(rollup)


@pytest.fixture
def chain_before_holocene() -> ChainFixture:
    """Return a chain on which invalid payloads are dropped, not replaced."""
    return ChainFixture(make_rollup(dict.fromkeys(ALL_FORKS[:6], 0)))


@pytest.fixture
def engine(chain: ChainFixture) -> FakeExecutionEngine:
    return FakeExecutionEngine(chain)


@pytest.fixture
def run_on(tmp_path: Path) -> RunOn:
    """Run the stage on an engine of its own chain."""

    def on(engine: FakeExecutionEngine) -> Run:
        @asynccontextmanager
        async def begin(**config: Any) -> AsyncIterator[EngineNode]:
            async with engine.serving(), EngineNode(engine.chain, engine, tmp_path, **config).running() as node:
                yield node

        return begin

    return on


@pytest.fixture
def run(run_on: RunOn, engine: FakeExecutionEngine) -> Run:
    return run_on(engine)


@pytest.fixture
def engine_log() -> list[Record]:
    """Return what is logged, from INFO on."""
    records = list[Record]()
    log.configure("engine", Level.INFO, records.append)
    return records
