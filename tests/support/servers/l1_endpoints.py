"""The endpoints of an l1 process, on chain 5, with servers on the loopback interface."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.protocol.config import RollupConfig
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.servers.http_listener import listening

ROLLUP = msgspec.structs.replace(PLAIN_ROLLUP, l1_chain_id=5)


class Served(NamedTuple):
    """Endpoints, what they were made of, and what counts their calls."""

    config: L1Config
    endpoints: L1Endpoints
    meter: Meter


@asynccontextmanager
async def served(
    *apps: web.Application, rollups: Sequence[RollupConfig] = (ROLLUP,), **options: Any
) -> AsyncIterator[Served]:
    """Yield the endpoints of these servers; `options` of L1Config."""
    async with listening(*apps) as urls:
        config, meter = L1Config(urls, tuple(rollups), **{"timeout": 2.0, **options}), Meter("l1")
        endpoints = L1Endpoints(config, meter)
        try:
            yield Served(config, endpoints, meter)
        finally:
            await endpoints.close()
