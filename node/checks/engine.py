"""Checks of the execution engine: its port, its capabilities, and the forks of its blocks [LIF24]."""

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from rollup_node.node.checks.execution import read_block
from rollup_node.node.checks.finding import Finding, error, ok, warning
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity, fork_doubts
from rollup_node.stages.engine.calls.io.client import chain_config, engine_identity
from rollup_node.stages.io.http.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.hex_encoding import HexError, from_hex, from_quantity
from rollup_node.stages.protocol.jsonrpc_codes import METHOD_NOT_FOUND
from rollup_node.stages.protocol.jwt_token import authorization
from rollup_node.stages.protocol.l1_info import L1InfoError, parse_l1_info
from rollup_node.stages.protocol.texts import duration
from rollup_node.stages.rpc.status.readiness import doubt_text

CAPABILITIES = "engine_exchangeCapabilities"
FORKCHOICE = "engine_forkchoiceUpdatedV3"
NEVER = (1 << 63) - 1


class SafeHead(NamedTuple):
    """The safe head of an engine; `origin` and `origin_time` are number and time of its L1 origin."""

    number: int
    origin: int
    origin_time: int


class _Header(msgspec.Struct):
    number: str
    timestamp: str
    extraData: str = "0x"
    withdrawalsRoot: str | None = None
    parentBeaconBlockRoot: str | None = None
    requestsHash: str | None = None


class _Transaction(msgspec.Struct):
    input: str


def engine_client(url: str, secret: bytes, timeout: float) -> JsonRpcClient:
    """Return a client whose every request has a new token, and none without a secret."""

    def token() -> Mapping[str, str]:
        return {"Authorization": authorization(secret, time.time())}

    return JsonRpcClient(url, timeout=timeout, headers=token if secret else None)


async def offered_methods(client: JsonRpcClient, check: str) -> tuple[list[Finding], frozenset[str] | None]:
    """Whether this is the port of the Engine API, and the methods that the engine names, None if it names none."""
    try:
        offered = await client.call_typed(list[str], CAPABILITIES, [FORKCHOICE])
        return [ok(check, f"the Engine API has {len(offered)} methods")], frozenset(offered)
    except EndpointError as failure:
        return [warning(check, Code.ENGINE_CAPABILITIES, f"{CAPABILITIES} does not work: {failure}")], None
    except RpcFailure as failure:
        if failure.code == METHOD_NOT_FOUND and await _lacks(client, FORKCHOICE):
            return [error(check, Code.ENGINE_PUBLIC_PORT, f"{client.name} has no Engine API ({failure})")], None
        return [warning(check, Code.ENGINE_CAPABILITIES, f"{CAPABILITIES} does not work: {failure}")], None


async def _lacks(client: JsonRpcClient, method: str) -> bool:
    """Whether a call without parameters gets `method not found`: a method's own error changes nothing."""
    try:
        await client.call(method)
    except RpcFailure as failure:
        return failure.code == METHOD_NOT_FOUND
    except EndpointError:
        return False
    return False


async def check_identity(
    client: JsonRpcClient, check: str, given: str | None
) -> tuple[list[Finding], EngineIdentity | None]:
    """Who the engine says it is, None if it does not say.

    Whether that contradicts `l2.enginekind`, which is None where it is not given [ENG41]."""
    try:
        identity = await engine_identity(client.call_typed)
    except EndpointError as failure:
        return [warning(check, Code.ENGINE_KIND, f"it does not say who it is: {failure}")], None
    if identity is None:
        return [], None
    if given is not None and identity.kind not in (None, given):
        text = f"--l2.enginekind={given} is given, and the engine says that it is {identity}"
        return [warning(check, Code.ENGINE_KIND, text)], identity
    return [ok(check, f"it is {identity}")], identity


async def check_coming_forks(
    client: JsonRpcClient, check: str, rollup: RollupConfig, identity: EngineIdentity | None, network: str, now: float
) -> list[Finding]:
    """Return a warning for each fork to come that the engine seems not to know; `now` in Unix seconds [ENG42]."""
    try:
        config = await chain_config(client.call_typed)
    except EndpointError:
        config = None
    doubts = fork_doubts(rollup, identity, config, network, now)
    return [warning(check, Code.FORK_MISMATCH, doubt_text(doubt, now)) for doubt in doubts]


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
    return SafeHead(block.height, info.number, info.timestamp)
