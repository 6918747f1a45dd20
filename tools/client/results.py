"""The results of the node's JSON-RPC methods as types.

Hashes are HexBytes, numbers integers; fields that this version does not know are ignored."""

from base64 import b64encode
from collections.abc import Mapping
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any, TypeVar

import msgspec
from hexbytes import HexBytes
from web3.method import Method
from web3.types import RPCEndpoint

from rollup_node.stages.p2p.peering.peer_info import IpNet, PeerDump, PeerInfo, PeerStats
from rollup_node.stages.protocol.hex_encoding import to_hex

__all__ = ["IpNet", "PeerDump", "PeerInfo", "PeerStats"]
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
        return {name: _plain(each) for name, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def _decode(kind: type[Any], value: Any) -> Any:
    if kind is HexBytes and isinstance(value, str):
        return HexBytes(value)
    raise TypeError(f"{kind.__name__} from {type(value).__name__}")


IpAddress = IPv4Address | IPv6Address | str
IpNetwork = IPv4Network | IPv6Network


def call(name: str, shape: Any) -> Method[Any]:
    """Return the method of a module that calls `name` and returns its result as this type."""

    def formatter(*_: Any) -> Any:
        return partial(convert, shape=shape)

    return Method(RPCEndpoint(name), mungers=[_parameters], result_formatters=formatter)


def _parameters(_module: Any, *given: Any) -> list[Any]:
    return [_parameter(each) for each in given]


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
