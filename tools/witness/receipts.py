"""Fetches the receipts that our derivation does not read but kona-client does [WIT5].

Derivation skips the receipts of a block whose bloom filter excludes deposits and config updates."""

import asyncio

from rollup_node.stages.io.http.jsonrpc import EndpointError, RpcFailure
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.filter import filter_of_rollup
from rollup_node.stages.l1.process.client import L1Endpoints
from rollup_node.stages.l1.receipts import verified_logs
from rollup_node.stages.l1.verify import InvalidDataError
from rollup_node.stages.protocol.answer_limits import receipts_limit
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.tools.witness.packs import L1Pack, PackFolder, RangeResult, l1_name, receipts_name
from rollup_node.tools.witness.preimages import WitnessError

PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before each further attempt."""
AT_ONCE = 8


async def complete_receipts(packs: PackFolder, result: RangeResult, config: L1Config) -> None:
    """Fetch what is missing of the blocks after the base. Raises WitnessError where no endpoint has it."""
    endpoints = L1Endpoints(config, Meter("witness"))
    slots = asyncio.Semaphore(AT_ONCE)

    async def fetch(pack: L1Pack) -> None:
        async with slots:
            await _fetch(packs, pack, endpoints, config)

    missing = []
    number, block_hash = result.head.number, result.head.hash
    while number > result.base.number:
        pack = packs.get(l1_name(block_hash), L1Pack, f"L1 block {number}")
        if pack.verified.receipts_root != EMPTY_ROOT and not packs.has(receipts_name(block_hash)):
            missing.append(pack)
        number, block_hash = number - 1, pack.parent
    try:
        async with asyncio.TaskGroup() as tasks:
            for pack in missing:
                tasks.create_task(fetch(pack))
    except* WitnessError as errors:
        raise errors.exceptions[0] from None
    finally:
        await endpoints.close()


async def _fetch(packs: PackFolder, pack: L1Pack, endpoints: L1Endpoints, config: L1Config) -> None:
    block, reason = pack.verified, "no endpoint answered"
    for pause in (*PAUSES, None):
        endpoint = None
        try:
            endpoint = endpoints.pick()
            body = await endpoint.receipts_body(
                block.header.hash, block.transaction_hashes, receipts_limit(block.gas_used)
            )
            if body is not None:
                nodes: list[bytes] = []
                verified_logs(body, block, [filter_of_rollup(rollup) for rollup in config.rollups], nodes)
                packs.put(receipts_name(block.header.hash), tuple(nodes))
                return
            reason = f"{endpoint.name} does not have them"
        except (EndpointError, RpcFailure, InvalidDataError) as error:
            reason = str(error)
            if endpoint is not None:
                endpoints.failed(endpoint, error)
        if pause is not None:
            await asyncio.sleep(pause)
    raise WitnessError(f"the receipts of L1 block {block.header.number} cannot be read: {reason}")
