"""Clients of a node: web3.py with the node's namespaces."""

import time
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, Generic, ParamSpec, TypeVar, overload

import msgspec
from hexbytes import HexBytes
from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3
from web3.method import Method
from web3.module import Module
from web3.types import RPCEndpoint

from rollup_node.stages.p2p.peering.peer_info import IpNet, PeerDump, PeerInfo, PeerStats
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.jwt_token import authorization

__all__ = ["IpNet", "PeerDump", "PeerInfo", "PeerStats"]
P = ParamSpec("P")
T = TypeVar("T")


class ResultError(ValueError):
    """A result of another shape than its method has."""


class BlockId(msgspec.Struct, frozen=True):
    """A block of L1 or L2."""

    hash: HexBytes
    number: int


class L1BlockRef(msgspec.Struct, frozen=True, rename="camel"):
    """An L1 block; `timestamp` in seconds. The zero hash is that of an unknown block."""

    hash: HexBytes
    number: int
    parent_hash: HexBytes
    timestamp: int


class L2BlockRef(msgspec.Struct, frozen=True, rename="camel"):
    """An L2 block, with its L1 origin and its number within the epoch; as L1BlockRef otherwise."""

    hash: HexBytes
    number: int
    parent_hash: HexBytes
    timestamp: int
    l1_origin: BlockId = msgspec.field(name="l1origin")
    sequence_number: int


class SyncStatus(msgspec.Struct, frozen=True):
    """The result of optimism_syncStatus [RPC36 to RPC40]."""

    current_l1: L1BlockRef
    current_l1_finalized: L1BlockRef
    head_l1: L1BlockRef
    safe_l1: L1BlockRef
    finalized_l1: L1BlockRef
    unsafe_l2: L2BlockRef
    safe_l2: L2BlockRef
    finalized_l2: L2BlockRef
    pending_safe_l2: L2BlockRef
    cross_unsafe_l2: L2BlockRef
    local_safe_l2: L2BlockRef


class OutputAtBlock(msgspec.Struct, frozen=True, rename="camel"):
    """The result of optimism_outputAtBlock [RPC31]."""

    version: HexBytes
    output_root: HexBytes
    block_ref: L2BlockRef
    withdrawal_storage_root: HexBytes
    state_root: HexBytes
    sync_status: SyncStatus


class SafeHead(msgspec.Struct, frozen=True, rename="camel"):
    """The result of optimism_safeHeadAtL1Block: the safe head after that L1 block, and the L1 block that made it so."""

    l1_block: BlockId
    safe_head: BlockId


class DependencySet(msgspec.Struct, frozen=True, rename="camel"):
    """The result of optimism_dependencySet: the chain ids; the message window in seconds, 0 for the default."""

    dependencies: dict[str, Any]
    override_message_expiry_window: int = 0


class Reload(msgspec.Struct, frozen=True, rename="camel"):
    """The result of admin_reload [RPC99]: options that are taken over, processes that restart, options that wait."""

    changed: list[str]
    restarted: list[str]
    need_restart: list[str]


class SdmStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The result of admin_sdmStatus [RPC56]; `activation_time` in Unix seconds, None if there is none."""

    post_exec_opt_in: bool
    protocol_active: bool
    effective: bool
    activation_time: int | None = None


def convert(value: Any, shape: type[T]) -> T:
    """Return the value of a result as this type. Raises ResultError for another shape."""
    try:
        return msgspec.convert(_plain(value), shape, dec_hook=_decode)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise ResultError(f"unexpected result: {error}") from None


def _plain(value: Any) -> Any:
    """Return the value without the mapping types of web3's middleware."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def _decode(kind: type[Any], value: Any) -> Any:
    if kind is HexBytes and isinstance(value, str):
        return HexBytes(value)
    raise TypeError(f"{kind.__name__} from {type(value).__name__}")


IpAddress = IPv4Address | IPv6Address | str
IpNetwork = IPv4Network | IPv6Network


class AsyncModule(Module):
    """A module with results to await."""

    is_async = True


class Call(Method[Any], Generic[P, T]):
    """A method of a module, with these parameters and this result."""

    @overload  # type: ignore[override]
    def __get__(self, module: AsyncModule, _type: Any = None) -> Callable[P, Awaitable[T]]: ...

    @overload
    def __get__(self, module: Module, _type: Any = None) -> Callable[P, T]: ...

    def __get__(self, module: Any = None, _type: Any = None) -> Any:
        return super().__get__(module, _type)


def call(name: str, shape: Any) -> Call[..., Any]:
    """Return the method of a module that calls `name` and returns its result as this type."""

    def formatter(*_: Any) -> Any:
        return partial(convert, shape=shape)

    return Call(RPCEndpoint(name), mungers=[_parameters], result_formatters=formatter)


def _parameters(_module: Any, *values: Any) -> list[Any]:
    return [_parameter(value) for value in values]


def _parameter(value: Any) -> Any:
    """Return a parameter as the node reads it: bytes and numbers in hex, networks with their mask in base64 [RPC76]."""
    if isinstance(value, bytes):
        return to_hex(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return hex(value)
    if isinstance(value, IPv4Address | IPv6Address):
        return str(value)
    if isinstance(value, IPv4Network | IPv6Network):
        return {"IP": str(value.network_address), "Mask": b64encode(value.netmask.packed).decode()}
    return value


class Optimism(Module):
    """The `optimism` namespace."""

    sync_status: Call[[], SyncStatus] = call("optimism_syncStatus", SyncStatus)
    output_at_block: Call[[int], OutputAtBlock] = call("optimism_outputAtBlock", OutputAtBlock)
    safe_head_at_l1_block: Call[[int], SafeHead] = call("optimism_safeHeadAtL1Block", SafeHead)
    rollup_config: Call[[], dict[str, Any]] = call("optimism_rollupConfig", dict[str, Any])
    dependency_set: Call[[], DependencySet] = call("optimism_dependencySet", DependencySet)
    version: Call[[], str] = call("optimism_version", str)


class Admin(Module):
    """The `admin` namespace, which a node has with `rpc.enable-admin`."""

    start_sequencer: Call[[bytes], None] = call("admin_startSequencer", type(None))
    stop_sequencer: Call[[], HexBytes] = call("admin_stopSequencer", HexBytes)
    sequencer_active: Call[[], bool] = call("admin_sequencerActive", bool)
    reload: Call[[], Reload] = call("admin_reload", Reload)
    reset_derivation_pipeline: Call[[], None] = call("admin_resetDerivationPipeline", type(None))
    post_unsafe_payload: Call[[dict[str, Any]], None] = call("admin_postUnsafePayload", type(None))
    set_recover_mode: Call[[bool], None] = call("admin_setRecoverMode", type(None))
    set_sdm_post_exec_opt_in: Call[[bool], None] = call("admin_setSdmPostExecOptIn", type(None))
    sdm_status: Call[[], SdmStatus] = call("admin_sdmStatus", SdmStatus)
    set_log_level: Call[[str], None] = call("admin_setLogLevel", type(None))
    override_leader: Call[[], None] = call("admin_overrideLeader", type(None))
    conductor_enabled: Call[[], bool] = call("admin_conductorEnabled", bool)


class Opp2p(Module):
    """The `opp2p` namespace."""

    self_info: Call[[], PeerInfo] = call("opp2p_self", PeerInfo)
    peers: Call[[bool], PeerDump] = call("opp2p_peers", PeerDump)
    peer_stats: Call[[], PeerStats] = call("opp2p_peerStats", PeerStats)
    discovery_table: Call[[], list[str]] = call("opp2p_discoveryTable", list[str])
    block_peer: Call[[str], None] = call("opp2p_blockPeer", type(None))
    unblock_peer: Call[[str], None] = call("opp2p_unblockPeer", type(None))
    list_blocked_peers: Call[[], list[str]] = call("opp2p_listBlockedPeers", list[str])
    block_addr: Call[[IpAddress], None] = call("opp2p_blockAddr", type(None))
    unblock_addr: Call[[IpAddress], None] = call("opp2p_unblockAddr", type(None))
    list_blocked_addrs: Call[[], list[str]] = call("opp2p_listBlockedAddrs", list[str])
    block_subnet: Call[[IpNetwork], None] = call("opp2p_blockSubnet", type(None))
    unblock_subnet: Call[[IpNetwork], None] = call("opp2p_unblockSubnet", type(None))
    list_blocked_subnets: Call[[], list[IpNet]] = call("opp2p_listBlockedSubnets", list[IpNet])
    protect_peer: Call[[str], None] = call("opp2p_protectPeer", type(None))
    unprotect_peer: Call[[str], None] = call("opp2p_unprotectPeer", type(None))
    connect_peer: Call[[str], None] = call("opp2p_connectPeer", type(None))
    disconnect_peer: Call[[str], None] = call("opp2p_disconnectPeer", type(None))
    diagnosis: Call[[], dict[str, Any]] = call("opp2p_diagnosis", dict[str, Any])


class AsyncOptimism(AsyncModule, Optimism):
    """The `optimism` namespace, with results to await."""


class AsyncAdmin(AsyncModule, Admin):
    """The `admin` namespace, with results to await."""


class AsyncOpp2p(AsyncModule, Opp2p):
    """The `opp2p` namespace, with results to await."""


Modules = dict[str, type[Module] | Sequence[Any]]

MODULES: Modules = {"optimism": Optimism, "admin": Admin, "opp2p": Opp2p}
"""For `Web3(provider, external_modules=MODULES)`."""
ASYNC_MODULES: Modules = {"optimism": AsyncOptimism, "admin": AsyncAdmin, "opp2p": AsyncOpp2p}
"""For `AsyncWeb3(provider, external_modules=ASYNC_MODULES)`."""


class RollupClient:
    """A node's JSON-RPC.

    `timeout` is in seconds a request; `jwt_secret` is that of `rpc.jwt-secret`, with which each request has a new
    token."""

    def __init__(self, url: str, *, timeout: float = 10.0, jwt_secret: bytes | None = None) -> None:
        provider = _Provider(url, request_kwargs={"timeout": timeout}, exception_retry_configuration=None)
        provider.jwt_secret = jwt_secret
        self.w3 = Web3(provider)
        self.optimism, self.admin, self.opp2p = Optimism(self.w3), Admin(self.w3), Opp2p(self.w3)


class AsyncRollupClient:
    """The same with results to await, from one event loop. As a context it closes its connections."""

    def __init__(self, url: str, *, timeout: float = 10.0, jwt_secret: bytes | None = None) -> None:
        provider = _AsyncProvider(url, request_kwargs={"timeout": timeout}, exception_retry_configuration=None)
        provider.jwt_secret = jwt_secret
        self.w3 = AsyncWeb3(provider)
        self.optimism, self.admin = AsyncOptimism(self.w3), AsyncAdmin(self.w3)
        self.opp2p = AsyncOpp2p(self.w3)

    async def __aenter__(self) -> "AsyncRollupClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.w3.provider.disconnect()


class _Provider(HTTPProvider):
    jwt_secret: bytes | None = None

    def get_request_kwargs(self) -> Any:
        result = dict(super().get_request_kwargs())
        return {**result, "headers": {**result["headers"], **_token(self.jwt_secret)}}


class _AsyncProvider(AsyncHTTPProvider):
    jwt_secret: bytes | None = None

    def get_request_kwargs(self) -> Any:
        result = dict(super().get_request_kwargs())
        return {**result, "headers": {**result["headers"], **_token(self.jwt_secret)}}


def _token(secret: bytes | None) -> Mapping[str, str]:
    if secret is None:
        return {}
    return {"Authorization": authorization(secret, time.time())}
