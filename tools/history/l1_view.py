"""What a history needs to know of L1 before its ranges run."""

import asyncio
from contextlib import suppress
from typing import Any, NamedTuple

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process.block_archive import BlockArchive
from rollup_node.stages.l1.verify import InvalidDataError, verify_block_ref

PAUSES = (0.2, 0.5, 1.0, 2.0)
"""Seconds before each further attempt."""
FAILURES = (EndpointError, RpcFailure, KeyError, TypeError, ValueError)


class L1View(NamedTuple):
    """L1's head, the last block that it has finalized (-1 if it does not say), and the time of the first block of the
    history in Unix seconds."""

    head: int
    finalized: int
    time: int


async def l1_view(config: L1Config, first: int) -> L1View:
    """The view of the first endpoint; block `first` is read from the archive if it is there. Raises SetupError for an
    endpoint that fails each time."""
    client = JsonRpcClient(config.endpoints[0])
    try:
        for pause in PAUSES:
            with suppress(*FAILURES):
                return await _view(client, config, first)
            await asyncio.sleep(pause)
        return await _view(client, config, first)
    except (EndpointError, RpcFailure) as error:
        raise SetupError(f"--l1: {error}") from None
    except FAILURES:
        raise SetupError("--l1: unexpected answer to eth_blockNumber or eth_getBlockByNumber") from None
    finally:
        await client.close()


async def _view(client: JsonRpcClient, config: L1Config, first: int) -> L1View:
    head = int(await client.call("eth_blockNumber"), 16)
    number = min(first, head)
    time = await _archived_time(config, number)
    if time is None:
        block: Any = await client.call("eth_getBlockByNumber", hex(number), False)
        time = int(block["timestamp"], 16)
    return L1View(head, await _finalized(client), time)


async def _archived_time(config: L1Config, number: int) -> int | None:
    header = None if config.archive is None else await BlockArchive(config.archive, config).header_json(number)
    try:
        ref = None if header is None else verify_block_ref(header, config.trust_rpc)
    except InvalidDataError:
        return None
    return None if ref is None or ref.number != number else ref.timestamp


async def _finalized(client: JsonRpcClient) -> int:
    try:
        block: Any = await client.call("eth_getBlockByNumber", "finalized", False)
    except RpcFailure:
        return -1
    return -1 if block is None else int(block["number"], 16)
