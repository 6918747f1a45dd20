"""The rpc stage for a test."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.rpc.harness import RpcHarness, RunWithRpc


@pytest.fixture
def with_rpc(tmp_path: Path) -> RunWithRpc:
    """Runs a scenario with an rpc stage whose metrics directory is `tmp_path`."""

    def run(scenario: Callable[[RpcHarness], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(30), RpcHarness(tmp_path, **options).running() as harness:
                await scenario(harness)

        asyncio.run(main())

    return run
