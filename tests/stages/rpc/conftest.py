"""A scene with the rpc stage."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.rpc_world import World


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., None]:
    def begin(scene: Callable[[World], Any], **config: Any) -> None:
        async def whole() -> None:
            async with asyncio.timeout(30), World(tmp_path, **config).running() as world:
                await scene(world)

        asyncio.run(whole())

    return begin
