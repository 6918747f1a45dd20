"""The namespaces of the node as modules of web3.py's Web3, with typed parameters and results.

A method raises Web3RPCError with the node's error, ResultError for a result of another shape, and the provider's
errors."""

from collections.abc import Callable
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


class Optimism(Module):
    """The `optimism` namespace."""

    sync_status: Method[Callable[[], SyncStatus]] = call("optimism_syncStatus", SyncStatus)
    output_at_block: Method[Callable[[int], OutputAtBlock]] = call("optimism_outputAtBlock", OutputAtBlock)
    safe_head_at_l1_block: Method[Callable[[int], SafeHead]] = call("optimism_safeHeadAtL1Block", SafeHead)
    rollup_config: Method[Callable[[], dict[str, Any]]] = call("optimism_rollupConfig", dict[str, Any])
    dependency_set: Method[Callable[[], DependencySet]] = call("optimism_dependencySet", DependencySet)
    version: Method[Callable[[], str]] = call("optimism_version", str)


class Admin(Module):
    """The `admin` namespace, which a node has with `rpc.enable-admin`."""

    start_sequencer: Method[Callable[[bytes], None]] = call("admin_startSequencer", type(None))
    stop_sequencer: Method[Callable[[], HexBytes]] = call("admin_stopSequencer", HexBytes)
    sequencer_active: Method[Callable[[], bool]] = call("admin_sequencerActive", bool)
    reset_derivation_pipeline: Method[Callable[[], None]] = call("admin_resetDerivationPipeline", type(None))
    post_unsafe_payload: Method[Callable[[dict[str, Any]], None]] = call("admin_postUnsafePayload", type(None))
    set_recover_mode: Method[Callable[[bool], None]] = call("admin_setRecoverMode", type(None))
    set_sdm_post_exec_opt_in: Method[Callable[[bool], None]] = call("admin_setSdmPostExecOptIn", type(None))
    sdm_status: Method[Callable[[], SdmStatus]] = call("admin_sdmStatus", SdmStatus)
    set_log_level: Method[Callable[[str], None]] = call("admin_setLogLevel", type(None))
    override_leader: Method[Callable[[], None]] = call("admin_overrideLeader", type(None))
    conductor_enabled: Method[Callable[[], bool]] = call("admin_conductorEnabled", bool)


class Opp2p(Module):
    """The `opp2p` namespace."""

    self_info: Method[Callable[[], PeerInfo]] = call("opp2p_self", PeerInfo)
    peers: Method[Callable[[bool], PeerDump]] = call("opp2p_peers", PeerDump)
    peer_stats: Method[Callable[[], PeerStats]] = call("opp2p_peerStats", PeerStats)
    discovery_table: Method[Callable[[], list[str]]] = call("opp2p_discoveryTable", list[str])
    block_peer: Method[Callable[[str], None]] = call("opp2p_blockPeer", type(None))
    unblock_peer: Method[Callable[[str], None]] = call("opp2p_unblockPeer", type(None))
    list_blocked_peers: Method[Callable[[], list[str]]] = call("opp2p_listBlockedPeers", list[str])
    block_addr: Method[Callable[[IpAddress], None]] = call("opp2p_blockAddr", type(None))
    unblock_addr: Method[Callable[[IpAddress], None]] = call("opp2p_unblockAddr", type(None))
    list_blocked_addrs: Method[Callable[[], list[str]]] = call("opp2p_listBlockedAddrs", list[str])
    block_subnet: Method[Callable[[IpNetwork], None]] = call("opp2p_blockSubnet", type(None))
    unblock_subnet: Method[Callable[[IpNetwork], None]] = call("opp2p_unblockSubnet", type(None))
    list_blocked_subnets: Method[Callable[[], list[IpNet]]] = call("opp2p_listBlockedSubnets", list[IpNet])
    protect_peer: Method[Callable[[str], None]] = call("opp2p_protectPeer", type(None))
    unprotect_peer: Method[Callable[[str], None]] = call("opp2p_unprotectPeer", type(None))
    connect_peer: Method[Callable[[str], None]] = call("opp2p_connectPeer", type(None))
    disconnect_peer: Method[Callable[[str], None]] = call("opp2p_disconnectPeer", type(None))
    diagnosis: Method[Callable[[], dict[str, Any]]] = call("opp2p_diagnosis", dict[str, Any])
