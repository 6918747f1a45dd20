"""Compares the output roots of all nodes block by block at the end of a run."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure

ATTEMPTS = 20
RETRY_SECONDS = 0.5
CONCURRENCY = 8


@dataclass(frozen=True)
class Comparison:
    """The number of blocks compared, and the number of the first that differs, if any."""

    blocks: int
    first_difference: int | None

    @property
    def equal(self) -> bool:
        """Whether no block differs."""
        return self.first_difference is None


async def compare_output_roots(nodes: Mapping[str, JsonRpcClient], last: int) -> Comparison:
    """Compares blocks 0 to `last` by optimism_outputAtBlock.

    Raises EndpointError or RpcFailure when a node does not answer `ATTEMPTS` requests."""
    for start in range(0, last + 1, CONCURRENCY):
        numbers = range(start, min(start + CONCURRENCY, last + 1))
        roots = await asyncio.gather(*(_roots(client, numbers) for client in nodes.values()))
        for number, found in zip(numbers, zip(*roots, strict=True), strict=True):
            if len(set(found)) != 1:
                return Comparison(number + 1, number)
    return Comparison(last + 1, None)


async def _roots(client: JsonRpcClient, numbers: range) -> list[str]:
    return [await _root(client, number) for number in numbers]


async def _root(client: JsonRpcClient, number: int) -> str:
    for attempt in range(ATTEMPTS):
        try:
            output = await client.call("optimism_outputAtBlock", hex(number))
            return str(output["outputRoot"])
        except (EndpointError, RpcFailure):
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(RETRY_SECONDS)
    raise AssertionError("unreachable")
