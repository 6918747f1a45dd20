"""The end of a run: the output roots of all nodes, block by block."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure

TRIES = 20
PAUSE_SECONDS = 0.5
AT_ONCE = 8


@dataclass(frozen=True)
class Comparison:
    """How many blocks were compared, and the first that differs, if any."""

    blocks: int
    first_difference: int | None

    @property
    def equal(self) -> bool:
        return self.first_difference is None


async def compare_output_roots(nodes: Mapping[str, JsonRpcClient], last: int) -> Comparison:
    """Compares blocks 0 to `last` by optimism_outputAtBlock."""
    for start in range(0, last + 1, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, last + 1))
        roots = await asyncio.gather(*(_roots(client, numbers) for client in nodes.values()))
        for number, found in zip(numbers, zip(*roots, strict=True), strict=True):
            if len(set(found)) != 1:
                return Comparison(number + 1, number)
    return Comparison(last + 1, None)


async def _roots(client: JsonRpcClient, numbers: range) -> list[str]:
    return [await _root(client, number) for number in numbers]


async def _root(client: JsonRpcClient, number: int) -> str:
    for attempt in range(TRIES):
        try:
            answer = await client.call("optimism_outputAtBlock", hex(number))
            return str(answer["outputRoot"])
        except (EndpointError, RpcFailure):
            if attempt == TRIES - 1:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
    raise AssertionError("unreachable")
