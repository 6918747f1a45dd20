"""Every check of a node's surroundings in one run, concurrently and bounded in time [LIF24]."""

import asyncio
import ipaddress
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rollup_node.node.checks.causes import clock_skew, skew_text
from rollup_node.node.checks.finding import (
    Finding,
    FindingLevel,
    ListenAddress,
    check_ports,
    error,
    not_checked,
    ok,
    warning,
)
from rollup_node.node.setup.checkpoint import CheckpointCheck
from rollup_node.node.setup.endpoint_checks import (
    BeaconCheck,
    EngineCheck,
    L1Check,
    NodeEndpoints,
    find_follow_source,
    find_signer,
    has_answered,
)
from rollup_node.node.system.resources import Memory, free_tasks, in_mb, is_little, read_memory, task_limit_text
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process.client import BeaconEndpoints
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure, endpoint_name, is_ipc
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.p2p.addresses.ip import IpAddressError, is_within, parse_ip, parse_subnet
from rollup_node.stages.p2p.addresses.multiaddr import TcpAddress
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.peering.peer_info import StaticPeerError, parse_static_peers
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.types import L2_TO_L1_MESSAGE_PASSER
from rollup_node.tools.preflight.chain_checks import (
    Block,
    SafeHead,
    check_block_time,
    check_capabilities,
    check_finality,
    check_forks,
    check_head,
    check_inbox,
    check_l1_methods,
    check_method,
    check_system_config,
    find_blob_block,
    probe_blobs,
    read_block,
    read_safe_head,
)
from rollup_node.tools.preflight.light_client import beacon_version

PEERS = "peers"
MAX_DIALLED = 64
NO_PEER_ID = b""


async def check_peers(config: P2pConfig | None, seconds: float) -> list[Finding]:
    """Return what the options say about peers, and a connection to each static peer within that time.

    `config` is None without a peer-to-peer network."""
    if config is None:
        return [ok(PEERS, "there is no peer-to-peer network (--p2p.disable)")]
    static, discovery = [text for text in config.static if text.strip()], not config.no_discovery
    sources = f"{len(config.bootnodes) if discovery else 0} bootnodes, {len(static)} static peers"
    if not static and not (discovery and config.bootnodes):
        result = [warning(PEERS, Code.PEERS_NONE, f"no peer is named: {sources}")]
    else:
        result = [ok(PEERS, sources)]
    result += _advertised(config)
    return result + await _dial(config, static, seconds)


def _advertised(config: P2pConfig) -> list[Finding]:
    advertise_ip = config.advertise_ip
    if not advertise_ip or config.nat or config.netrestrict:
        return []
    with suppress(ValueError):
        if not ipaddress.ip_address(advertise_ip).is_global:
            return [warning(PEERS, Code.PEERS_ADDRESS, f"--p2p.advertise.ip {advertise_ip} is not a public address")]
    return [ok(PEERS, f"{advertise_ip} is advertised")]


async def _dial(config: P2pConfig, static: Sequence[str], seconds: float) -> list[Finding]:
    try:
        # No peer has an empty id, so that none is left out as our own.
        addresses = parse_static_peers(static[:MAX_DIALLED], NO_PEER_ID)
    except StaticPeerError as failure:
        return [warning(PEERS, Code.PEER_UNREACHABLE, str(failure))]
    targets = [address.tcp for item in addresses.values() for address in item if address.tcp is not None]
    return list(await asyncio.gather(*(_dial_one(config, target, seconds) for target in targets)))


def _is_allowed(config: P2pConfig, host: str) -> bool:
    """Whether the node would dial that host; where networks are restricted, the addresses of a name are not known."""
    if not config.netrestrict:
        return True
    try:
        return is_within(parse_ip(host), map(parse_subnet, config.netrestrict))
    except IpAddressError:
        return False


async def _dial_one(config: P2pConfig, target: TcpAddress, seconds: float) -> Finding:
    check = f"peer {target.host}:{target.port}"
    if not _is_allowed(config, target.host):
        return not_checked(check, "it is outside --p2p.netrestrict, or a name")
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(target.host, target.port)
    except (OSError, TimeoutError) as failure:
        reason = getattr(failure, "strerror", None) or f"no answer within {seconds:g} s"
        return warning(check, Code.PEER_UNREACHABLE, f"no connection: {reason}")
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return ok(check, "accepts connections")


CHECK_SECONDS = 10.0
"""How long one check may take."""

CALL_SECONDS = 4.0
"""How long one call of a check may take: two may fail before the check ends."""

MOST_SKEW = 5.0
"""Seconds that clocks may differ: blocks of peers are accepted up to 5 s ahead of our clock."""

_SILENT = (Code.L1_UNREACHABLE, Code.TLS_PORT, Code.TLS_CERTIFICATE, Code.ENDPOINTS_SWAPPED)

Check = Callable[[list[Finding]], Awaitable[None]]
"""Adds findings to the list as it makes them."""


class Subject(NamedTuple):
    """What is checked.

    `blobs` is None where the node fetches none, `p2p` without a peer-to-peer network, and `files` are paths by
    option; without `needs_safe_blobs` the engine syncs by itself. `processes` are those of the process table."""

    endpoints: NodeEndpoints
    blobs: BlobsConfig | None
    p2p: P2pConfig | None
    listeners: list[ListenAddress]
    files: Mapping[str, str]
    needs_safe_blobs: bool = True
    processes: int = 0


async def preflight(subject: Subject) -> list[Finding]:
    """Return the findings of all checks, in the order of their subjects."""
    async with AsyncExitStack() as stack:
        return await _Preflight(subject, stack).run()


class _Preflight:
    def __init__(self, subject: Subject, stack: AsyncExitStack) -> None:
        self._subject, self._endpoints = subject, subject.endpoints
        self._stack = stack
        self._l1 = [L1Check(self._endpoints, url, CALL_SECONDS) for url in self._endpoints.l1]
        self._engine = EngineCheck(self._endpoints, CALL_SECONDS)
        for item in self._l1:
            stack.push_async_callback(item.close)
        stack.push_async_callback(self._engine.close)
        self._heads: list[tuple[JsonRpcClient, Block]] = []
        self._l2_head: Block | None = None
        self._safe_head: SafeHead | None = None
        self._knows_safe_head = False

    async def run(self) -> list[Finding]:
        """All checks; those of inbox and blobs begin when L1 and engine are known."""
        l1 = [_bounded(item.name, partial(self._check_l1, item)) for item in self._l1]
        groups = [
            *l1,
            _bounded(self._engine.name, self._check_engine),
            _bounded("beacon", self._check_beacon),
            _bounded("checkpoint", self._check_checkpoint),
            _bounded("clocks", self._check_clocks),
            _bounded("follow source", self._check_follow_source),
            _bounded("signer", self._check_signer),
            _bounded("ports", self._check_ports),
            _bounded("files", self._check_files),
            _bounded("memory", self._check_memory),
            _bounded("processes", self._check_processes),
            _bounded("peers", self._check_peers),
        ]
        results = await asyncio.gather(*groups)
        if self._heads:
            # As at the start: one L1 endpoint is enough.
            results[: len(l1)] = [[_softened(item) for item in result] for result in results[: len(l1)]]
        after = await asyncio.gather(
            _bounded("system config", self._check_system_config),
            _bounded("batch inbox", self._check_inbox),
            _bounded("blobs of the L1 head", self._check_new_blobs),
            _bounded("blobs of the safe head", self._check_safe_blobs),
        )
        return [finding for result in (*results, *after) for finding in result]

    async def _check_l1(self, check: L1Check, findings: list[Finding]) -> None:
        try:
            findings += await check.find()
        except (EndpointError, RpcFailure) as failure:
            findings.append(await check.unusable(failure))
        if any(item.is_error for item in findings):
            findings.append(not_checked(check.name, "its head and methods: see its error"))
            return
        head = await read_block(check.client, "latest")
        if head is None:
            findings.append(warning(check.name, Code.L1_HEAD, "it has no latest block"))
            return
        self._heads.append((check.client, head))
        findings.append(check_head(check.name, head))
        findings.append(await check_finality(check.client, check.name, head))
        contract = self._endpoints.rollup.l1_system_config
        findings += await check_l1_methods(check.client, check.name, head, contract)

    async def _check_engine(self, findings: list[Finding]) -> None:
        check, rollup = self._engine, self._endpoints.rollup
        if not self._endpoints.jwt_secret and not is_ipc(self._endpoints.l2):
            findings += await _find_without_secret(check)
            findings.append(not_checked(check.name, "there is no JWT secret to ask it with"))
            return
        try:
            findings += await check.find()
        except (EndpointError, RpcFailure) as failure:
            findings.append(await check.unusable(failure))
        if any(item.is_error for item in findings):
            findings.append(not_checked(check.name, "its capabilities, forks and safe head: see its error"))
            return
        if check.offered is not None:
            findings += check_capabilities(check.name, check.offered, rollup, int(time.time()))
        forks = await check_forks(check.client, check.name, rollup)
        findings.append(forks)
        self._l2_head = await read_block(check.client, "latest")
        findings.append(await check_block_time(check.client, check.name, rollup, self._l2_head))
        params: tuple[Any, ...] = (to_hex(L2_TO_L1_MESSAGE_PASSER), [], "latest")
        findings.append(await check_method(check.client, check.name, Code.ENGINE_METHODS, "eth_getProof", params))
        if forks.is_error:
            findings.append(not_checked(check.name, "its safe head: its blocks have other forks"))
            return
        try:
            self._safe_head = await read_safe_head(check.client, rollup)
            self._knows_safe_head = True
        except HexError as failure:
            findings.append(error(check.name, Code.ENGINE_FORKS, f"the safe head cannot be read: {failure}"))

    async def _check_beacon(self, findings: list[Finding]) -> None:
        if self._endpoints.beacon is None:
            findings.append(not_checked("beacon", "there is none (--l1.beacon)"))
            return
        check = BeaconCheck(self._endpoints, CALL_SECONDS)
        try:
            findings += await check.find()
        except EndpointError as failure:
            findings.append(await check.unusable(failure))
        else:
            version = await beacon_version(check.reader)
            findings.append(ok(check.name, version or "it does not say which software it is"))
        if self._endpoints.beacon_may_fail:
            findings[:] = [item._replace(level=FindingLevel.WARNING) if item.is_error else item for item in findings]

    async def _check_checkpoint(self, findings: list[Finding]) -> None:
        if self._endpoints.checkpoint is None:
            text = "there is none: the L1 endpoints are believed (docs/trust.md); rollup-node checkpoint prints one"
            findings.append(ok("checkpoint", text))
            return
        check = CheckpointCheck(self._endpoints.checkpoint, time.time)
        try:
            findings += await check.find()
        except EndpointError as failure:
            findings.append(await check.unusable(failure))
        finally:
            await check.close()

    async def _check_clocks(self, findings: list[Finding]) -> None:
        beacon = [self._endpoints.beacon] if self._endpoints.beacon else []
        urls = [url for url in (*self._endpoints.l1, self._endpoints.l2, *beacon) if not is_ipc(url)]
        asked = (clock_skew(url, CALL_SECONDS, url == self._endpoints.l2) for url in urls)
        for url, skew in zip(urls, await asyncio.gather(*asked), strict=True):
            check = f"clock {endpoint_name(url)}"
            if skew is None:
                findings.append(not_checked(check, "no answer with a date"))
            elif abs(skew) > MOST_SKEW:
                findings.append(warning(check, Code.CLOCK, skew_text(skew)))
            else:
                findings.append(ok(check, skew_text(skew)))

    async def _check_follow_source(self, findings: list[Finding]) -> None:
        if self._endpoints.follow is not None:
            findings += await find_follow_source(self._endpoints, CALL_SECONDS)

    async def _check_signer(self, findings: list[Finding]) -> None:
        if self._endpoints.signer is not None:
            findings += await find_signer(self._endpoints.signer)

    async def _check_ports(self, findings: list[Finding]) -> None:
        # A name of a host may have to be resolved.
        findings += await asyncio.to_thread(check_ports, self._subject.listeners)

    async def _check_files(self, findings: list[Finding]) -> None:
        # A file system of a network may not answer.
        findings += await asyncio.to_thread(check_files, self._subject.files)

    async def _check_memory(self, findings: list[Finding]) -> None:
        findings.append(check_memory())

    async def _check_processes(self, findings: list[Finding]) -> None:
        findings.append(check_processes(self._subject.processes, free_tasks()))

    async def _check_peers(self, findings: list[Finding]) -> None:
        findings += await check_peers(self._subject.p2p, CALL_SECONDS)

    async def _check_system_config(self, findings: list[Finding]) -> None:
        if self._heads:
            findings += await check_system_config(*self._first_head(), self._l2_head)

    async def _check_inbox(self, findings: list[Finding]) -> None:
        rollup = self._endpoints.rollup
        if self._heads and self._knows_safe_head:
            batcher = rollup.genesis.system_config.batcher if self._safe_head is None else self._safe_head.batcher
            try:
                async with asyncio.timeout(CHECK_SECONDS - 1):
                    findings.append(await check_inbox(*self._first_head(), batcher))
            except (TimeoutError, EndpointError, RpcFailure) as failure:
                findings.append(not_checked("batch inbox", f"the last L1 blocks: {failure or 'they come too slowly'}"))

    def _first_head(self) -> tuple[JsonRpcClient, RollupConfig, Block]:
        client, head = self._heads[0]
        return client, self._endpoints.rollup, head

    async def _check_new_blobs(self, findings: list[Finding]) -> None:
        check = "blobs of the L1 head"
        sources = self._sources(check, findings)
        if sources is not None:
            client, head = self._heads[0]
            block = await find_blob_block(client, head.height, -1)
            findings.append(await probe_blobs(sources, check, block, False, time.time()))

    async def _check_safe_blobs(self, findings: list[Finding]) -> None:
        check = "blobs of the safe head"
        if not self._subject.needs_safe_blobs:
            findings.append(not_checked(check, "the engine syncs by itself (--syncmode)"))
            return
        if not self._knows_safe_head:
            findings.append(not_checked(check, "the safe head of the engine is not known"))
            return
        sources = self._sources(check, findings)
        if sources is not None:
            safe = self._safe_head
            origin = self._endpoints.rollup.genesis.l1.number if safe is None else safe.origin
            block = await find_blob_block(self._heads[0][0], origin, 1)
            findings.append(await probe_blobs(sources, check, block, True, time.time()))

    def _sources(self, check: str, findings: list[Finding]) -> BeaconEndpoints | None:
        """Return the sources of blobs, None where there is nothing to ask or nobody to ask."""
        config = self._subject.blobs
        if config is None or not (config.beacon or config.fallbacks):
            findings.append(not_checked(check, "there is no source of blobs"))
            return None
        if not self._heads:
            findings.append(not_checked(check, "no L1 endpoint can be used"))
            return None
        sources = BeaconEndpoints(msgspec.structs.replace(config, timeout=CALL_SECONDS), Meter("check"))
        self._stack.push_async_callback(sources.close)
        return sources


async def _find_without_secret(check: EngineCheck) -> list[Finding]:
    """Whether the engine responds at all, which needs no JWT."""
    try:
        await check.client.call("eth_chainId")
    except (EndpointError, RpcFailure) as failure:
        if not has_answered(failure):
            return [await check.unusable(failure)]
    return []


def _softened(finding: Finding) -> Finding:
    return finding._replace(level=FindingLevel.WARNING) if finding.is_error and finding.code in _SILENT else finding


async def _bounded(check: str, fill: Check) -> list[Finding]:
    """Return what a check finds within CHECK_SECONDS, and whether that is all.

    What it finds before it fails is kept."""
    result: list[Finding] = []
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await fill(result)
    except TimeoutError:
        result.append(error(check, Code.NO_RESULT, f"no result within {CHECK_SECONDS:g} s"))
    except (EndpointError, RpcFailure, HexError) as failure:
        result.append(error(check, Code.NO_RESULT, f"the check failed: {failure}"))
    except Exception as failure:
        # A bug in one check must not hide what the others find.
        result.append(error(check, Code.NO_RESULT, f"the check failed: {type(failure).__name__}: {failure}"))
    return result


LITTLE = 1 << 30
"""Bytes: databases of peers and of safe heads grow by some hundred megabytes a year."""

TOO_LITTLE = 64 << 20


def check_files(paths: Mapping[str, str]) -> list[Finding]:
    """Whether each file can be written, or made with the directories above it, and the room on its disk.

    Paths by their options. Disks are reported once."""
    result: list[Finding] = []
    disks: set[int] = set()
    for option, text in paths.items():
        path = Path(text).absolute()
        there = next(parent for parent in (path, *path.parents) if parent.exists())
        result.append(_writable(f"--{option}", path, there))
        disk = there.stat().st_dev
        if disk not in disks:
            disks.add(disk)
            result.append(_room(f"disk of --{option}", there))
    return result


def _writable(check: str, path: Path, there: Path) -> Finding:
    if there != path and not there.is_dir():
        return error(check, Code.DIRECTORY, f"{path} cannot be made: {there} is no directory")
    wanted = os.W_OK | os.X_OK if there.is_dir() else os.W_OK
    if not os.access(there, wanted):
        return error(check, Code.DIRECTORY, f"{there} cannot be written")
    return ok(check, f"{path} can be {'written' if there == path else 'made'}")


def _room(check: str, there: Path) -> Finding:
    free = shutil.disk_usage(there).free
    text = f"{free / (1 << 30):.1f} GiB free at {there}"
    if free < TOO_LITTLE:
        return error(check, Code.DISK, text)
    return warning(check, Code.DISK, text) if free < LITTLE else ok(check, text)


CHECK = "memory"


def check_memory(read: Callable[[], Memory | None] = read_memory) -> Finding:
    """Return the finding for the memory that is left."""
    memory = read()
    if memory is None:
        return not_checked(CHECK, "the system does not say how much there is")
    text = f"{in_mb(memory.available)} of {in_mb(memory.total)} are left"
    return warning(CHECK, Code.MEMORY, text) if is_little(memory) else ok(CHECK, text)


def check_processes(processes: int, free: int | None) -> Finding:
    """Whether the limits allow the processes of a node and their threads."""
    text, is_too_much = task_limit_text(processes, free)
    return error("processes", Code.HOST_LIMIT, text) if is_too_much else ok("processes", text)
