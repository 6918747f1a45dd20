"""`rollup-node budget`: what L1 and beacon endpoints have to serve, from a sample of their blocks [CMD14]."""

import asyncio
from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import orjson

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure, endpoint_name
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.l1.filter import L1Filter, filter_of_rollup
from rollup_node.stages.l1.receipts import is_not_found
from rollup_node.stages.l1.verify import InvalidDataError, parse_block, verify_block
from rollup_node.stages.protocol.answer_limits import L1_BLOCK, receipts_limit
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, to_hex
from rollup_node.stages.protocol.texts import escaped_line
from rollup_node.tools.commands.common import ParsedCommand, parse
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.preflight.chain_checks import read_block

DAY = 86_400.0
POLLS_PER_BLOCK = 1.25
"""At the tip each poll asks for the whole newest block; with a poll every 12 s one in five finds the block before."""
SMALL_ANSWER = 1500
"""Bytes of a header."""
PROOF_ANSWER = 10_000
"""Bytes of a proof of the unsafe block signer."""
BLOB_BYTES = 131_072
L1, BEACON = "L1", "beacon"


class SampledBlock(NamedTuple):
    """An L1 block: the bytes of its body, and of its receipts, and the blobs that the batcher sent in it.

    The bytes of the receipts are 0 where the bloom shows that none are needed."""

    number: int
    body_bytes: int
    receipts_bytes: int
    blobs: int


class Polling(NamedTuple):
    """What the node asks for besides blocks.

    Seconds between polls of L1's finalized block, and between reads of the unsafe block signer; 0 for none."""

    finality: float
    signer: float


class Row(NamedTuple):
    """The requests and bytes of one method, or route."""

    endpoint: str
    method: str
    requests: float
    bytes: float


class Budget(NamedTuple):
    """What so many L1 blocks take, by method."""

    blocks: int
    rows: tuple[Row, ...]

    def total(self, endpoint: str) -> Row:
        """Return the sum over the methods of an endpoint."""
        rows = [row for row in self.rows if row.endpoint == endpoint]
        return Row(endpoint, "all", sum(row.requests for row in rows), sum(row.bytes for row in rows))


def day_at_the_tip(sample: Sequence[SampledBlock], block_seconds: float, polling: Polling) -> Budget:
    """Return a day of a node that follows the tip."""
    blocks = round(DAY / block_seconds)
    rows = [Row(L1, "eth_getBlockByNumber", blocks * POLLS_PER_BLOCK, _body(sample) * blocks * POLLS_PER_BLOCK)]
    if polling.finality > 0:
        # The labels safe and finalized, and the finalized block by its number.
        polls = 3 * DAY / polling.finality
        rows.append(Row(L1, "eth_getBlockByNumber (labels)", polls, polls * SMALL_ANSWER))
        rows.append(Row(L1, "eth_chainId", polls / 3, polls / 3 * 50))
    if polling.signer > 0:
        reads = DAY / polling.signer
        rows.append(Row(L1, "eth_getProof", reads, reads * PROOF_ANSWER))
    return Budget(blocks, (*rows, *_needed(sample, blocks)))


def sync(sample: Sequence[SampledBlock], blocks: int) -> Budget:
    """Return the catch-up over so many L1 blocks."""
    return Budget(blocks, (Row(L1, "eth_getBlockByNumber", blocks, _body(sample) * blocks), *_needed(sample, blocks)))


def hours_at(budget: Budget, requests_per_second: float) -> float:
    """How long the L1 requests take at that rate."""
    return budget.total(L1).requests / requests_per_second / 3600


def _body(sample: Sequence[SampledBlock]) -> float:
    return fmean(block.body_bytes for block in sample)


def _needed(sample: Sequence[SampledBlock], blocks: int) -> list[Row]:
    """Return what only some blocks need: receipts, and blobs with the commitments of their beacon block."""
    with_receipts = fmean(block.receipts_bytes > 0 for block in sample)
    with_blobs = fmean(block.blobs > 0 for block in sample)
    receipts = fmean(block.receipts_bytes for block in sample)
    blobs = fmean(block.blobs for block in sample)
    result = [Row(L1, "eth_getBlockReceipts", blocks * with_receipts, blocks * receipts)]
    result.append(Row(BEACON, "blobs", blocks * with_blobs, blocks * blobs * BLOB_BYTES))
    result.append(Row(BEACON, "block", blocks * with_blobs, 0.0))
    return result


def spread(first: int, last: int, count: int) -> list[int]:
    """At most `count` numbers over a range, evenly, with its last."""
    length = last - first + 1
    if length <= count:
        return list(range(first, last + 1))
    return [last - index * length // count for index in range(count)][::-1]


DESCRIPTION = """Predicts the requests and bytes that the node takes from L1 and from the beacon node, in a day at the
tip and in a sync up to the head. It reads a sample of L1 blocks, as the node does: with receipts where the bloom asks
for them. Bytes are those before compression, and blobs are counted in SSZ."""
EPILOG = "Options of the node for its network and L1 are accepted as well: rollup-node --help-all."
MAX_SAMPLES = 500
DEFAULT_SAMPLES = 24
CONCURRENCY = 4


class _Sample(NamedTuple):
    head: int
    block_seconds: float
    recent: list[SampledBlock]
    range: list[SampledBlock]


def main(arguments: Sequence[str]) -> int:
    """Print the tables. Raises SetupError where L1 cannot be sampled."""
    parser = FlagParser("budget", DESCRIPTION, EPILOG)
    parser.add_argument("--from-l1", type=int, metavar="N", help="first L1 block of the sync; by default the rollup's")
    parser.add_argument("--samples", type=int, default=DEFAULT_SAMPLES, metavar="N", help="L1 blocks to read, twice")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    # The beacon node is not called.
    command = parse(parser, [*arguments, "--l1.beacon.ignore"])
    flags, values = command.flags, command.values
    if not 1 <= flags.samples <= MAX_SAMPLES:
        raise SetupError(f"--samples: must be 1 to {MAX_SAMPLES}, not {flags.samples}")
    first = command.chain.config.genesis.l1.number if flags.from_l1 is None else flags.from_l1
    try:
        sample = asyncio.run(_read(command, first, flags.samples))
    except EndpointError as error:
        raise SetupError(f"L1: {error}") from None
    except (RpcFailure, InvalidDataError, HexError) as error:
        raise SetupError(f"L1: {endpoint_name(_url(command))}: {escaped_line(str(error))}") from None
    polling = Polling(values["l1.epoch-poll-interval"], values["l1.runtime-config-reload-interval"])
    day = day_at_the_tip(sample.recent, sample.block_seconds, polling)
    whole = sync(sample.range, sample.head - first + 1)
    rate = float(values["l1.rpc-rate-limit"])
    if flags.json:
        print(orjson.dumps(_values(command, sample, first, day, whole, rate), option=orjson.OPT_INDENT_2).decode())
    else:
        _print(command, sample, first, day, whole, rate)
    return 0


def _url(command: ParsedCommand) -> str:
    return str(command.values["l1"][0])


async def _read(command: ParsedCommand, first: int, count: int) -> _Sample:
    config, values = command.chain.config, command.values
    client = JsonRpcClient(
        _url(command),
        timeout=20.0,
        max_concurrency=min(CONCURRENCY, max(1, values["l1.max-concurrency"])),
        rate_limit=values["l1.rpc-rate-limit"],
    )
    try:
        chain_id = from_quantity(await client.call("eth_chainId"), 256)
        if chain_id != config.l1_chain_id:
            raise EndpointError(client.name, f"is on L1 chain {chain_id}, but the rollup is on {config.l1_chain_id}")
        latest = await read_block(client, "latest")
        if latest is None:
            raise EndpointError(client.name, "has no latest block")
        head = latest.height
        if not 0 <= first <= head:
            raise SetupError(f"--from-l1 {first}: must be at most the head of L1, {head}")
        day_ago = await read_block(client, hex(max(0, head - 7200)))
        span = head - max(0, head - 7200)
        seconds = 12.0 if day_ago is None or not span else max(0.1, (latest.time - day_ago.time) / span)
        l1_filter = filter_of_rollup(config)
        recent = await _sampled(client, l1_filter, spread(max(0, head - 7199), head, count))
        whole = await _sampled(client, l1_filter, spread(first, head, count))
        return _Sample(head, seconds, recent, whole)
    finally:
        await client.close()


async def _sampled(client: JsonRpcClient, l1_filter: L1Filter, numbers: Sequence[int]) -> list[SampledBlock]:
    result: list[SampledBlock] = []
    for start in range(0, len(numbers), CONCURRENCY):
        part = numbers[start : start + CONCURRENCY]
        result += await asyncio.gather(*(_sampled_block(client, l1_filter, number) for number in part))
    return result


async def _sampled_block(client: JsonRpcClient, l1_filter: L1Filter, number: int) -> SampledBlock:
    body = await client.call_raw("eth_getBlockByNumber", hex(number), True, limit=L1_BLOCK)
    result = parse_block(body)
    if result is None:
        raise EndpointError(client.name, f"does not have block {number}")
    block = verify_block(result, number, True, (l1_filter,))
    receipts = 0
    if block.needs_receipts:
        limit = receipts_limit(block.gas_used)
        try:
            receipts = len(await client.call_raw("eth_getBlockReceipts", to_hex(block.header.hash), limit=limit))
        except RpcFailure as failure:
            if not is_not_found(failure.message):
                raise
    return SampledBlock(number, len(body), receipts, sum(len(item.blobs) for item in block.inboxes[0]))


def _values(
    command: ParsedCommand, sample: _Sample, first: int, day: Budget, whole: Budget, rate: float
) -> dict[str, Any]:
    return {
        "chain": command.chain.name,
        "l1_head": sample.head,
        "from_l1": first,
        "block_seconds": round(sample.block_seconds, 2),
        "samples": len(sample.recent),
        "day": _budget_values(day),
        "sync": {**_budget_values(whole), **({"hours": round(hours_at(whole, rate), 2)} if rate else {})},
    }


def _budget_values(budget: Budget) -> dict[str, Any]:
    rows = [
        {"endpoint": row.endpoint, "method": row.method, "requests": round(row.requests), "bytes": round(row.bytes)}
        for row in budget.rows
    ]
    totals = {
        endpoint: {"requests": round(total.requests), "bytes": round(total.bytes)}
        for endpoint in (L1, BEACON)
        for total in [budget.total(endpoint)]
    }
    return {"l1_blocks": budget.blocks, "methods": rows, "totals": totals}


def _print(command: ParsedCommand, sample: _Sample, first: int, day: Budget, whole: Budget, rate: float) -> None:
    print(
        f"{command.chain.name}, L1 head {sample.head}, {sample.block_seconds:.1f} s between L1 blocks;"
        f" {len(sample.recent)} blocks of the last day and {len(sample.range)} of the sync read"
    )
    _print_table(f"a day at the tip, {day.blocks} L1 blocks", day)
    _print_table(f"sync from L1 block {first}, {whole.blocks} L1 blocks", whole)
    if rate:
        print(f"at --l1.rpc-rate-limit {rate:g} the requests to L1 take {hours_at(whole, rate):.1f} hours at least")


def _print_table(title: str, budget: Budget) -> None:
    print(f"\n{title}\n{'':8} {'method':32} {'requests':>14} {'megabytes':>12}")
    for endpoint in (L1, BEACON):
        rows = [row for row in budget.rows if row.endpoint == endpoint]
        for row in (*rows, budget.total(endpoint)):
            print(f"{row.endpoint:8} {_shown(row):32} {row.requests:>14,.0f} {row.bytes / 1e6:>12,.1f}")


def _shown(row: Row) -> str:
    return "in all" if row.method == "all" else row.method
