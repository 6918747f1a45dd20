"""Checks before a node starts: the endpoints respond and belong to the chain, the ports are free. Each error is one
line that says what is wrong and what to do [LIF11, OPT33]."""

import asyncio
import errno
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import aiohttp
import jwt
import msgspec

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.engine.api.io.follow_client import FollowClient, WrongChainError
from rollup_node.stages.io.endpoint_errors import endpoint_name
from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.io.log import get_logger
from rollup_node.stages.p2p.blocks.signing import SigningError
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.p2p.signer.io.remote_signer import RemoteSigner
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.decode_errors import DECODE_ERRORS
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.hex_encoding import HexError, from_quantity, hash_from_hex, short_repr, to_hex
from rollup_node.stages.protocol.jsonrpc_codes import METHOD_NOT_FOUND
from rollup_node.stages.protocol.types import BlockId

PRUNED_HISTORY = 4444
BLOCK_NOT_FOUND = ("block not found", "unknown block", "header not found")
JWT_ERROR_WORDS = ("jwt", "token", "unauthorized", "authenticat")
RETRYABLE_STATUSES = frozenset({408, 425, 429})
BEACON_GENESIS_PATH = "/eth/v1/beacon/genesis"
MAX_GENESIS_BYTES = 1 << 16

MIN_PAUSE = 0.05
log = get_logger("start")


class Endpoints(NamedTuple):
    """The endpoints to check, and their chain. `beacon_may_fail` turns a failed beacon check into a warning; with
    `l1_genesis` False the L1 genesis block is not checked, for an endpoint that has only part of the chain. `signer` is
    the remote signer, `follow` the follow source, None without one."""

    rollup: RollupConfig
    l1: tuple[str, ...]
    l2: str
    jwt_secret: bytes
    jwt_path: str
    beacon: str | None = None
    beacon_header: tuple[str, str] | None = None
    beacon_may_fail: bool = False
    l1_genesis: bool = True
    signer: SignerConfig | None = None
    follow: str | None = None


class RetryPolicy(NamedTuple):
    """How long an unreachable endpoint is retried, how long one attempt may take, and the longest pause between two, in
    seconds [LHD1]. Pauses are short so that the node is ready soon after its endpoints are."""

    total: float = 80.0
    timeout: float = 10.0
    max_pause: float = 1.0


RETRY_POLICY = RetryPolicy()


async def check_endpoints(endpoints: Endpoints, policy: RetryPolicy = RETRY_POLICY) -> None:
    """Checks L1, the execution engine, the beacon node and the remote signer concurrently. Raises SetupError for the
    first that fails."""
    checks = [check_l1(endpoints, policy), check_engine(endpoints, policy)]
    if endpoints.beacon is not None:
        checks.append(check_beacon(endpoints, policy))
    if endpoints.follow is not None:
        checks.append(check_follow_source(endpoints, policy))
    if endpoints.signer is not None:
        checks.append(check_signer(endpoints.signer))
    tasks = [asyncio.ensure_future(check) for check in checks]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# --- L1 --------------------------------------------------------------------------------------------------------------


async def check_l1(endpoints: Endpoints, policy: RetryPolicy) -> None:
    """Every L1 endpoint that responds must be the L1 of the chain, and at least one must respond."""
    genesis = endpoints.rollup.genesis.l1 if endpoints.l1_genesis else None
    chain_id = endpoints.rollup.l1_chain_id
    clients = [JsonRpcClient(url, timeout=policy.timeout) for url in endpoints.l1]

    async def one_round() -> None:
        results = await asyncio.gather(
            *(_check_chain(client, "L1", chain_id, genesis) for client in clients), return_exceptions=True
        )
        errors = [result for result in results if result is not None]
        wrong = next((error for error in errors if not isinstance(error, EndpointError | RpcFailure)), None)
        if wrong is not None or len(errors) == len(results):
            raise wrong or errors[0]
        for error in errors:
            log.warn("an L1 endpoint does not respond, others do", error=str(error))

    try:
        await _retry(one_round, "L1", "check --l1", policy)
    finally:
        for client in clients:
            await client.close()


# --- execution engine ------------------------------------------------------------------------------------------------


async def check_engine(endpoints: Endpoints, policy: RetryPolicy) -> None:
    """The execution engine must accept our JWT and have the L2 chain."""

    def token() -> Mapping[str, str]:
        encoded = jwt.encode({"iat": int(time.time())}, endpoints.jwt_secret, algorithm="HS256")
        return {"Authorization": f"Bearer {encoded}"}

    client = JsonRpcClient(endpoints.l2, timeout=policy.timeout, headers=token)
    genesis, chain_id = endpoints.rollup.genesis.l2, endpoints.rollup.l2_chain_id

    async def once() -> None:
        try:
            await _check_chain(client, "L2", chain_id, genesis)
        except (EndpointError, RpcFailure) as error:
            if _is_jwt_error(error):
                raise SetupError(
                    f"the execution engine rejects our JWT ({error}): give the secret file of the engine with"
                    f" --l2.jwt-secret (now {endpoints.jwt_path}), and keep both clocks right"
                ) from None
            raise

    try:
        await _retry(once, "the execution engine", "check --l2", policy)
    finally:
        await client.close()


def _is_jwt_error(error: EndpointError | RpcFailure) -> bool:
    if isinstance(error, EndpointError):
        return error.status in (401, 403)
    return any(word in error.message.lower() for word in JWT_ERROR_WORDS)


async def _check_chain(client: JsonRpcClient, layer: str, chain_id: int, genesis: BlockId | None) -> None:
    """Checks the chain id, and the genesis hash if it is given and the endpoint still has that block."""
    advice = "check --l1" if layer == "L1" else "check --l2"
    advice += " and --network or --rollup.config"
    try:
        found = from_quantity(await client.call("eth_chainId"), bits=256)
        if found != chain_id:
            raise SetupError(f"incorrect {layer} RPC chain id {found}, expected {chain_id} ({client.name}): {advice}")
        if genesis is None:
            return
        block = await _block(client, genesis.number)
        if block is None:
            log.warn(f"the {layer} endpoint does not have the genesis block: its hash is not checked")
            return
        found_hash = hash_from_hex(block.get("hash") if isinstance(block, dict) else block)
    except HexError as error:
        text = f"the {layer} endpoint {client.name} does not respond like an Ethereum node, {error}: {advice}"
        raise SetupError(text) from None
    if found_hash != genesis.hash:
        raise SetupError(
            f"incorrect {layer} genesis block hash {to_hex(found_hash)}, expected {to_hex(genesis.hash)}"
            f" ({client.name}, block {genesis.number}): {advice}"
        )


async def _block(client: JsonRpcClient, number: int) -> Any:
    try:
        return await client.call("eth_getBlockByNumber", hex(number), False)
    except RpcFailure as error:
        if error.code == PRUNED_HISTORY or any(text in error.message.lower() for text in BLOCK_NOT_FOUND):
            return None
        raise


# --- follow source ---------------------------------------------------------------------------------------------------


async def check_follow_source(endpoints: Endpoints, policy: RetryPolicy) -> None:
    """The node whose heads are followed must be one of the chain, if it responds: without it the node follows gossip
    [FSR8, FSR10]. Raises SetupError if it is not."""
    client = FollowClient(endpoints.follow or "", policy.timeout, endpoints.rollup)
    try:
        await client.check_chain()
    except WrongChainError as error:
        raise SetupError(f"{error}: check --l2.follow.source") from None
    except TemporaryError as error:
        log.warn("the check of the follow source failed", error=str(error))
    finally:
        await client.close()


# --- beacon ----------------------------------------------------------------------------------------------------------


class _Genesis(msgspec.Struct):
    genesis_time: str


class _GenesisResponse(msgspec.Struct):
    data: _Genesis


async def check_beacon(endpoints: Endpoints, policy: RetryPolicy) -> None:
    """The beacon node must return its genesis. One whose check may fail is asked once: the start does not wait for
    it."""
    url, header = endpoints.beacon or "", endpoints.beacon_header
    headers = {"Accept": "application/json", **({header[0]: header[1]} if header else {})}
    timeout = aiohttp.ClientTimeout(total=policy.timeout)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
        advice = "check --l1.beacon, or start without this check by --l1.beacon.ignore"
        try:
            total = 0.0 if endpoints.beacon_may_fail else policy.total
            await _retry(lambda: _get_genesis(session, url), "the L1 beacon node", advice, policy._replace(total=total))
        except SetupError as error:
            if not endpoints.beacon_may_fail:
                raise SetupError(f"failed to check L1 Beacon API version: {error}") from None
            log.warn("the check of the L1 beacon node failed", error=str(error))


async def _get_genesis(session: aiohttp.ClientSession, url: str) -> None:
    name = endpoint_name(url)
    try:
        async with session.get(url.rstrip("/") + BEACON_GENESIS_PATH) as response:
            body = b""
            while len(body) < MAX_GENESIS_BYTES and (part := await response.content.readany()):
                body += part
            if response.status != 200:
                raise EndpointError(name, f"HTTP status {response.status} for {BEACON_GENESIS_PATH}", response.status)
    except TimeoutError:
        raise EndpointError(name, "timeout") from None
    except (aiohttp.ClientError, OSError) as error:
        number = getattr(getattr(error, "os_error", error), "errno", None)
        reason = os.strerror(number) if isinstance(number, int) and number > 0 else type(error).__name__
        raise EndpointError(name, f"cannot connect ({reason})") from None
    try:
        time_text = msgspec.json.decode(body, type=_GenesisResponse).data.genesis_time
    except DECODE_ERRORS:
        raise SetupError(f"{name} does not respond to {BEACON_GENESIS_PATH} like a beacon node") from None
    if not (time_text.isascii() and time_text.isdigit()):
        raise SetupError(f"{name} responds to {BEACON_GENESIS_PATH} with the genesis time {short_repr(time_text)}")


# --- remote signer ---------------------------------------------------------------------------------------------------


async def check_signer(config: SignerConfig) -> None:
    """The remote signer must answer `health_status`, which is called once [SGN1]. Raises SetupError if it does not."""
    signer = RemoteSigner(config)
    try:
        log.info("connected to the remote signer", endpoint=signer.name, version=await signer.version())
    except SigningError as error:
        advice = "check --signer.endpoint, that the signer runs"
        advice += ", and --signer.tls.ca, --signer.tls.cert and --signer.tls.key" if config.tls_enabled else ""
        raise SetupError(f"the remote signer cannot be used, {error}: {advice}") from None
    finally:
        await signer.close()


# --- retries --------------------------------------------------------------------------------------------------------


async def _retry(check: Callable[[], Awaitable[None]], what: str, advice: str, policy: RetryPolicy) -> None:
    """Repeats a check while its endpoint is unreachable. Raises SetupError after the total time or a final error."""
    deadline = time.monotonic() + policy.total
    for failures in count(1):
        try:
            return await check()
        except (EndpointError, RpcFailure) as error:
            if time.monotonic() >= deadline or _is_final(error):
                raise SetupError(f"{what} cannot be used, {error}: {advice}") from None
            if failures.bit_count() == 1:
                log.warn(f"{what} does not respond, retrying", error=str(error), failures=failures)
        await asyncio.sleep(min(MIN_PAUSE * 2.0 ** min(failures, 10), policy.max_pause))


def _is_final(error: EndpointError | RpcFailure) -> bool:
    if isinstance(error, RpcFailure):
        return error.code == METHOD_NOT_FOUND
    status = error.status
    return status is not None and 400 <= status < 500 and status not in RETRYABLE_STATUSES


# --- ports -----------------------------------------------------------------------------------------------------------


class ListenAddress(NamedTuple):
    """A socket on which the node listens, and the options that set its address."""

    address_option: str
    port_option: str
    address: str
    port: int
    is_udp: bool = False


def check_port(listener: ListenAddress) -> None:
    """Raises SetupError when it is impossible to listen there now; port 0 is always free."""
    address, port = listener.address, listener.port
    if port == 0:
        return
    kind = socket.SOCK_DGRAM if listener.is_udp else socket.SOCK_STREAM
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=kind, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind, protocol) as opened:
            if not listener.is_udp:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(target)
            if not listener.is_udp:
                opened.listen(1)
    except OSError as error:
        shown = f"UDP port {port}" if listener.is_udp else f"port {port}"
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"{shown} is in use on {address}: stop the program that uses it, or give another"
                f" --{listener.port_option}"
            ) from None
        reason = error.strerror or error
        raise SetupError(
            f"cannot listen on {address} {shown} (--{listener.address_option}, --{listener.port_option}): {reason}"
        ) from None


def check_ports(listeners: Sequence[ListenAddress]) -> None:
    """Checks every listener of the node, also against each other. Raises SetupError for the first conflict."""
    taken: dict[tuple[int, bool], str] = {}
    for listener in listeners:
        key, option = (listener.port, listener.is_udp), listener.port_option
        if listener.port and key in taken:
            raise SetupError(f"--{taken[key]} and --{option} are both {listener.port}: give one another port")
        taken[key] = option
        check_port(listener)
