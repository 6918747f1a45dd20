"""The namespaces of the node as modules of web3.py's AsyncWeb3: `modules`, with results to await."""

from collections.abc import Awaitable, Callable
from typing import Any

from hexbytes import HexBytes
from web3.method import Method
from web3.module import Module

from rollup_node.tools.client.results import (
    DependencySet,
    IpAddress,
    IpNet,
    IpNetwork,
    OutputAtBlock,
    PeerDump,
    PeerInfo,
    PeerStats,
    SafeHead,
    SdmStatus,
    SyncStatus,
    call,
)


class AsyncOptimism(Module):
    """The `optimism` namespace."""

    is_async = True

    sync_status: Method[Callable[[], Awaitable[SyncStatus]]] = call("optimism_syncStatus", SyncStatus)
    output_at_block: Method[Callable[[int], Awaitable[OutputAtBlock]]] = call("optimism_outputAtBlock", OutputAtBlock)
    safe_head_at_l1_block: Method[Callable[[int], Awaitable[SafeHead]]] = call("optimism_safeHeadAtL1Block", SafeHead)
    rollup_config: Method[Callable[[], Awaitable[dict[str, Any]]]] = call("optimism_rollupConfig", dict[str, Any])
    dependency_set: Method[Callable[[], Awaitable[DependencySet]]] = call("optimism_dependencySet", DependencySet)
    version: Method[Callable[[], Awaitable[str]]] = call("optimism_version", str)


class AsyncAdmin(Module):
    """The `admin` namespace, which a node has with `rpc.enable-admin`."""

    is_async = True

    start_sequencer: Method[Callable[[bytes], Awaitable[None]]] = call("admin_startSequencer", type(None))
    stop_sequencer: Method[Callable[[], Awaitable[HexBytes]]] = call("admin_stopSequencer", HexBytes)
    sequencer_active: Method[Callable[[], Awaitable[bool]]] = call("admin_sequencerActive", bool)
    reset_derivation_pipeline: Method[Callable[[], Awaitable[None]]] = call("admin_resetDerivationPipeline", type(None))
    post_unsafe_payload: Method[Callable[[dict[str, Any]], Awaitable[None]]] = call(
        "admin_postUnsafePayload", type(None)
    )
    set_recover_mode: Method[Callable[[bool], Awaitable[None]]] = call("admin_setRecoverMode", type(None))
    set_sdm_post_exec_opt_in: Method[Callable[[bool], Awaitable[None]]] = call("admin_setSdmPostExecOptIn", type(None))
    sdm_status: Method[Callable[[], Awaitable[SdmStatus]]] = call("admin_sdmStatus", SdmStatus)
    set_log_level: Method[Callable[[str], Awaitable[None]]] = call("admin_setLogLevel", type(None))
    override_leader: Method[Callable[[], Awaitable[None]]] = call("admin_overrideLeader", type(None))
    conductor_enabled: Method[Callable[[], Awaitable[bool]]] = call("admin_conductorEnabled", bool)


class AsyncOpp2p(Module):
    """The `opp2p` namespace."""

    is_async = True

    self_info: Method[Callable[[], Awaitable[PeerInfo]]] = call("opp2p_self", PeerInfo)
    peers: Method[Callable[[bool], Awaitable[PeerDump]]] = call("opp2p_peers", PeerDump)
    peer_stats: Method[Callable[[], Awaitable[PeerStats]]] = call("opp2p_peerStats", PeerStats)
    discovery_table: Method[Callable[[], Awaitable[list[str]]]] = call("opp2p_discoveryTable", list[str])
    block_peer: Method[Callable[[str], Awaitable[None]]] = call("opp2p_blockPeer", type(None))
    unblock_peer: Method[Callable[[str], Awaitable[None]]] = call("opp2p_unblockPeer", type(None))
    list_blocked_peers: Method[Callable[[], Awaitable[list[str]]]] = call("opp2p_listBlockedPeers", list[str])
    block_addr: Method[Callable[[IpAddress], Awaitable[None]]] = call("opp2p_blockAddr", type(None))
    unblock_addr: Method[Callable[[IpAddress], Awaitable[None]]] = call("opp2p_unblockAddr", type(None))
    list_blocked_addrs: Method[Callable[[], Awaitable[list[str]]]] = call("opp2p_listBlockedAddrs", list[str])
    block_subnet: Method[Callable[[IpNetwork], Awaitable[None]]] = call("opp2p_blockSubnet", type(None))
    unblock_subnet: Method[Callable[[IpNetwork], Awaitable[None]]] = call("opp2p_unblockSubnet", type(None))
    list_blocked_subnets: Method[Callable[[], Awaitable[list[IpNet]]]] = call("opp2p_listBlockedSubnets", list[IpNet])
    protect_peer: Method[Callable[[str], Awaitable[None]]] = call("opp2p_protectPeer", type(None))
    unprotect_peer: Method[Callable[[str], Awaitable[None]]] = call("opp2p_unprotectPeer", type(None))
    connect_peer: Method[Callable[[str], Awaitable[None]]] = call("opp2p_connectPeer", type(None))
    disconnect_peer: Method[Callable[[str], Awaitable[None]]] = call("opp2p_disconnectPeer", type(None))
    diagnosis: Method[Callable[[], Awaitable[dict[str, Any]]]] = call("opp2p_diagnosis", dict[str, Any])
