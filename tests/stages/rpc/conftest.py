"""The rpc stage for a test."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.rpc.harness import RpcHarness, RunWithRpc


@pytest.fixture
def running_rpc(tmp_path: Path) -> RunWithRpc:
    """Run a scenario with an rpc stage whose metrics directory is `tmp_path`."""

    @asynccontextmanager
    async def run(**options: Any) -> AsyncIterator[RpcHarness]:
        async with asyncio.timeout(30), RpcHarness(tmp_path, **options).running() as harness:
            yield harness

    return run
