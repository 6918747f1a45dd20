"""Checks of `rollup-node check` that a start does not make: heads, finality, methods, forks of blocks [LIF24]."""

import time
from typing import Any, NamedTuple

import msgspec

from rollup_node.node.checks.execution import FORKCHOICE, is_missing
from rollup_node.node.checks.finding import Finding, error, not_checked, ok, warning
from rollup_node.stages.blobs.beacon_api import BeforeGenesisError, Failed, SourceFailure, classify
from rollup_node.stages.blobs.process.client import BeaconEndpoints, SourcesFailedError
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.answer_limits import L1_BLOCK, AnswerLimit
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.foreign_json import MalformedJsonError, decode_json
from rollup_node.stages.protocol.hex_encoding import (
    HexError,
    from_hex,
    from_quantity,
    hash_from_hex,
    to_hex,
)
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.l1_info import L1InfoError, parse_l1_info
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.protocol.types import Address, BlobRef

SEARCHED = 16
"""L1 blocks among which one with blobs is looked for: most have some."""


class BlobBlock(NamedTuple):
    """An L1 block with its first blob."""

    number: int
    time: int
    blob: BlobRef


class _Sent(msgspec.Struct):
    sender: str = msgspec.field(name="from", default="")
    to: str | None = None
    blobVersionedHashes: list[str] = msgspec.field(default_factory=list)


class _FullBlock(msgspec.Struct):
    transactions: list[_Sent]


class _Answer(msgspec.Struct):
    result: _FullBlock


async def find_blob_block(client: JsonRpcClient, first: int, step: int) -> BlobBlock | None:
    """Return the first L1 block with blobs of SEARCHED ones from `first` on, upwards or downwards by `step`.

    Raises EndpointError, RpcFailure and HexError."""
    for number in range(first, max(first + SEARCHED * step, -1), step):
        block: Block | None = await read_block(client, hex(number))
        if block is None:
            return None
        if from_quantity(block.blobGasUsed):
            hashes = [item for sent in await _transactions(client, number) for item in sent.blobVersionedHashes]
            if hashes:
                return BlobBlock(number, block.time, BlobRef(0, hash_from_hex(hashes[0])))
    return None


async def _transactions(client: JsonRpcClient, number: int) -> list[_Sent]:
    body = await client.call_raw("eth_getBlockByNumber", hex(number), True, limit=L1_BLOCK)
    try:
        block: _FullBlock = decode_json(body, _Answer, L1_BLOCK.values).result
        return block.transactions
    except MalformedJsonError as failure:
        raise EndpointError(client.name, str(failure)) from None


async def probe_blobs(
    sources: BeaconEndpoints, check: str, block: BlobBlock | None, is_needed: bool, now: float
) -> Finding:
    """Whether any source offers the first blob of a block; a failure is an error if derivation `is_needed` to have it.

    `now` in Unix seconds."""
    if block is None:
        return not_checked(check, f"none of {SEARCHED} L1 blocks there has blobs")
    age = now - block.time
    try:
        slot = await sources.clock.slot_at(block.time)
    except EndpointError as failure:
        return not_checked(check, f"no source says when slots begin: {failure}")
    except BeforeGenesisError as failure:
        return error(check, Code.BEACON_CHAIN, str(failure))
    where = f"slot {slot} (L1 block {block.number}, {duration(age)} old)"
    try:
        offer = await sources.fetch(slot, [block.blob])
    except SourcesFailedError as failure:
        return _missing(check, where, failure.failures, age, is_needed)
    if not offer.blobs:
        none = SourceFailure(Failed.HAS_NONE, f"{offer.endpoint.name}: an answer without blobs")
        return _missing(check, where, (none,), age, is_needed)
    return ok(check, f"{offer.endpoint.name} has the blobs of {where}")


def _missing(check: str, where: str, failures: tuple[SourceFailure, ...], age: float, is_needed: bool) -> Finding:
    words = "; ".join(failure.text for failure in failures)
    make = error if is_needed else warning
    return make(check, classify(failures, age), f"no source has the blobs of {where}: {words}")


NEVER = (1 << 63) - 1


class SafeHead(NamedTuple):
    """The safe head of an engine; `origin` and `origin_time` are number and time of its L1 origin.

    `batcher` is the one that its L1 info names."""

    number: int
    origin: int
    origin_time: int
    batcher: Address


class _Header(msgspec.Struct):
    number: str
    timestamp: str
    extraData: str = "0x"
    withdrawalsRoot: str | None = None
    parentBeaconBlockRoot: str | None = None
    requestsHash: str | None = None


class _Transaction(msgspec.Struct):
    input: str


def check_capabilities(check: str, offered: frozenset[str], rollup: RollupConfig, now: int) -> list[Finding]:
    """Whether the engine names the methods of the present fork, and of those to come; `now` in Unix seconds."""
    present = _needed(rollup, now)
    missing = sorted(present - offered)
    if missing:
        return [error(check, Code.ENGINE_CAPABILITIES, f"the engine lacks {', '.join(missing)}")]
    times = sorted({at for at in rollup.fork_times.values() if now < at < NEVER})
    for at in times:
        late = sorted(_needed(rollup, at) - offered)
        if late:
            text = f"the engine lacks {', '.join(late)}, needed by a fork in {duration(at - now)}"
            return [warning(check, Code.ENGINE_CAPABILITIES, text)]
    return [ok(check, f"the engine has {', '.join(sorted(present))}")]


def _needed(rollup: RollupConfig, at: int) -> frozenset[str]:
    rules = rollup.schedule().l2(at)
    return frozenset(
        {
            FORKCHOICE,
            f"engine_forkchoiceUpdatedV{rules.attributes_version}",
            f"engine_getPayloadV{rules.get_payload_version}",
            f"engine_newPayloadV{rules.new_payload_version}",
        }
    )


async def check_forks(client: JsonRpcClient, check: str, rollup: RollupConfig) -> Finding:
    """Whether the fields of the engine's latest block are those of the fork that the configuration has for its time.

    Raises EndpointError, RpcFailure and HexError."""
    header = await client.call_typed(_Header, "eth_getBlockByNumber", "latest", False)
    number, at = from_quantity(header.number), from_quantity(header.timestamp)
    forks = rollup.schedule().active(at)
    fork = forks[-1].name if forks else "bedrock"
    if number <= rollup.genesis.l2.number:
        return ok(check, f"block {number} is the genesis, which shows no fork")
    wrong = _wrong_fields(header, rollup, at)
    if wrong:
        text = f"block {number} (time {at}) of the engine is not of {fork}, the fork of our configuration: {wrong}"
        return error(check, Code.ENGINE_FORKS, text)
    return ok(check, f"block {number} is of {fork}, as configured")


def _wrong_fields(header: _Header, rollup: RollupConfig, at: int) -> str:
    rules = rollup.schedule().l2(at)
    size = 17 if rules.min_base_fee else 9 if rules.eip1559_params else None
    fields = (
        ("withdrawalsRoot", header.withdrawalsRoot, rules.withdrawals),
        ("parentBeaconBlockRoot", header.parentBeaconBlockRoot, rules.beacon_root),
        ("requestsHash", header.requestsHash, rules.withdrawals_root),
    )
    wrong = [
        f"it {'lacks' if wanted else 'has'} {name}" for name, value, wanted in fields if wanted != (value is not None)
    ]
    length = len(from_hex(header.extraData))
    if size is not None and length != size:
        wrong.append(f"its extraData has {length} bytes, not {size}")
    # Before Holocene the sequencer may write anything of up to 32 bytes there.
    return ", ".join(wrong)


async def read_safe_head(client: JsonRpcClient, rollup: RollupConfig) -> SafeHead | None:
    """Return the safe head, None while the engine has none but the genesis block.

    Raises EndpointError, RpcFailure and HexError."""
    block = await read_block(client, "safe")
    if block is None or block.height <= rollup.genesis.l2.number:
        return None
    # A whole block is as large as its gas allows.
    first: Any = await client.call_typed(_Transaction, "eth_getTransactionByBlockNumberAndIndex", block.number, "0x0")
    try:
        info = parse_l1_info(from_hex(first.input), rollup.schedule().l1_info_format(block.time))
    except L1InfoError as failure:
        raise HexError(f"it has no L1 info of its time: {failure}") from None
    return SafeHead(block.height, info.number, info.timestamp, info.batcher)


OLD_HEAD = 300
"""Seconds: 25 slots of Ethereum without a block."""


OLD_FINALIZED = 3600
"""Seconds between the finalized block and the head; Ethereum finalizes 13 to 19 minutes behind it."""


PROBE = AnswerLimit(32 << 20, 2_000_000)
"""What the receipts of the head may hold: they are not decoded."""


class Block(msgspec.Struct):
    """A block without its transactions."""

    number: str
    hash: str
    timestamp: str
    blobGasUsed: str = "0x0"
    gasLimit: str = "0x0"

    @property
    def height(self) -> int:
        """Its number. Raises HexError."""
        return from_quantity(self.number)

    @property
    def time(self) -> int:
        """Its time in seconds. Raises HexError."""
        return from_quantity(self.timestamp)


async def read_block(client: JsonRpcClient, name: str) -> Block | None:
    """Return a block by its number or label, None if there is none. Raises EndpointError, RpcFailure and HexError."""
    try:
        block: Block | None = await client.call_typed(Block | None, "eth_getBlockByNumber", name, False)
    except RpcFailure as failure:
        if is_missing(failure):
            return None
        raise
    if block is not None:
        _ = block.height, block.time, hash_from_hex(block.hash)
    return block


async def check_block_time(client: JsonRpcClient, check: str, rollup: RollupConfig, head: Block | None) -> Finding:
    """Whether the time between the engine's last two blocks, and since its genesis, is that of the configuration.

    Raises EndpointError, RpcFailure and HexError."""
    genesis = rollup.genesis
    if head is None or head.height <= genesis.l2.number:
        return not_checked(check, "its block time: it has no block but the genesis")
    if rollup.is_foreign(head.time):
        return not_checked(check, "its block time: its last block follows a fork of another family")
    parent = await read_block(client, hex(head.height - 1))
    if parent is None:
        return not_checked(check, f"its block time: it does not have block {head.height - 1}")
    seconds, wanted = head.time - parent.time, rollup.block_time
    if seconds != wanted:
        text = f"blocks {parent.height} and {head.height} are {seconds} s apart, block_time is {wanted}"
        return error(check, Code.ROLLUP_CONFIG, text)
    time_by_config = genesis.l2_time + (head.height - genesis.l2.number) * wanted
    if head.time != time_by_config:
        text = f"block {head.height} has time {head.time}, by genesis.l2_time and block_time it has {time_by_config}"
        return error(check, Code.ROLLUP_CONFIG, text)
    return ok(check, f"a block each {wanted} s, as configured")


RECENT = 3600
"""Seconds: the gas limit of an older block may have been changed since."""


async def check_system_config(
    client: JsonRpcClient, rollup: RollupConfig, head: Block, l2_head: Block | None
) -> list[Finding]:
    """Whether inbox and gas limit are those of the SystemConfig contract; one that does not say is not compared.

    Raises HexError."""
    check, contract = "system config", rollup.l1_system_config
    inbox = await _called(client, contract, "batchInbox()", head)
    limit = await _called(client, contract, "gasLimit()", head)
    result = []
    if inbox is not None and inbox[12:] != rollup.batch_inbox:
        text = f"batch_inbox_address is {to_hex(rollup.batch_inbox)}, the contract has {to_hex(inbox[12:])}"
        result.append(warning(check, Code.ROLLUP_CONFIG, text))
    if limit is not None and l2_head is not None and abs(head.time - l2_head.time) < RECENT:
        gas, wanted = from_quantity(l2_head.gasLimit), int.from_bytes(limit, "big")
        if gas != wanted:
            text = f"block {l2_head.height} of the engine has gas limit {gas}, the contract {wanted}"
            result.append(warning(check, Code.ROLLUP_CONFIG, text))
    if inbox is None and limit is None:
        return [not_checked(check, f"the contract {to_hex(contract)} does not say inbox and gas limit")]
    return result or [ok(check, "inbox and gas limit are those of the contract")]


async def _called(client: JsonRpcClient, contract: Address, signature: str, block: Block) -> bytes | None:
    """Return the word that a function without arguments gives, None if contract or endpoint have none."""
    data = to_hex(keccak256(signature.encode())[:4])
    try:
        answer = await client.call("eth_call", {"to": to_hex(contract), "data": data}, block.number)
        result = from_hex(answer)
    except (EndpointError, RpcFailure, HexError):
        return None
    return result if len(result) == 32 else None


INBOX_SEARCHED = 8
"""The last L1 blocks, in which a batch is looked for."""


async def check_inbox(client: JsonRpcClient, rollup: RollupConfig, head: Block, batcher: Address) -> Finding:
    """Whether the last L1 blocks have a batch of this batcher. Raises EndpointError and RpcFailure."""
    check, inbox, others = "batch inbox", to_hex(rollup.batch_inbox), 0
    first = max(0, head.height - INBOX_SEARCHED + 1)
    for number in range(head.height, first - 1, -1):
        transactions = await _transactions(client, number)
        senders = [sent.sender.lower() for sent in transactions if (sent.to or "").lower() == inbox]
        if to_hex(batcher) in senders:
            return ok(check, f"L1 block {number} has a transaction of the batcher")
        others += len(senders)
    blocks = f"L1 blocks {first} to {head.height}"
    if others:
        text = f"{blocks} have {others} transactions to the inbox, and none of the batcher {to_hex(batcher)}"
        return warning(check, Code.ROLLUP_CONFIG, text)
    return not_checked(check, f"{blocks} have no transaction to {inbox}")


def check_head(check: str, block: Block) -> Finding:
    """Whether the head of L1 is young."""
    age = time.time() - block.time
    if age > OLD_HEAD:
        return warning(check, Code.L1_HEAD, f"the latest block, {block.height}, is {duration(age)} old")
    return ok(check, f"block {block.height}, {duration(age)} old")


async def check_finality(client: JsonRpcClient, check: str, head: Block) -> Finding:
    """Whether L1 finalizes. Raises EndpointError and HexError."""
    try:
        finalized = await read_block(client, "finalized")
    except RpcFailure as failure:
        return not_checked(check, f"its finalized block: {failure}")
    if finalized is None:
        return not_checked(check, "its finalized block: it has none")
    age = head.time - finalized.time
    if age > OLD_FINALIZED:
        text = f"the finalized block, {finalized.height}, is {duration(age)} older than the latest, {head.height}"
        return warning(check, Code.FINALITY_STALE, text)
    return ok(check, f"finalized block {finalized.height}, {duration(age)} older than the latest")


async def check_l1_methods(client: JsonRpcClient, check: str, head: Block, contract: Address) -> list[Finding]:
    """Whether eth_getBlockReceipts and eth_getProof answer for the head; `contract` is that of the proof."""
    calls: tuple[tuple[str, tuple[Any, ...]], ...] = (
        ("eth_getBlockReceipts", (head.hash,)),
        ("eth_getProof", (to_hex(contract), [], head.number)),
    )
    return [await check_method(client, check, Code.L1_METHODS, method, params) for method, params in calls]


async def check_method(client: JsonRpcClient, check: str, code: Code, method: str, params: tuple[Any, ...]) -> Finding:
    """Whether a method answers a call."""
    try:
        await client.call_raw(method, *params, limit=PROBE)
    except (EndpointError, RpcFailure) as failure:
        return warning(check, code, f"{method} does not work: {failure}")
    return ok(check, f"{method} works")
