"""The rpc process's configuration."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig


class DependencySet(msgspec.Struct, frozen=True):
    """The L2 chain ids whose messages the chain may execute; `message_expiry_window` in s, 0: default [IOP25]."""

    chains: tuple[int, ...]
    message_expiry_window: int = 0


class RpcConfig(msgspec.Struct, frozen=True):
    """The options of `rpc.*`, `metrics.*`, `pprof.*`, `status.*` and `interop.rpc.*`. A port of 0 is any free one.

    `verified`: the interop process of this node verifies the chain's messages.

    Every process writes `<process>.prom` in `metrics_dir`, and exchanges profiles in `pprof_dir`. Without `p2p` there
    is no p2p process, without `finds_peers` it waits for peers; without `safedb` safe heads are not recorded; without
    `derives` another node is followed. The RPC server writes its URL into `url_file`, unless that is empty.
    The supervisor writes into `reload_file` what a reload did.
    `databases` are the paths of those on disk, by name. `network`, `processes_file` and `aside_file` are empty where
    there is none. `ready_*` are the limits of `/readyz` in L1 blocks and seconds, 0 for none [RPC92]. `sequencer_api`
    serves the namespace `opstack`, `ws_enabled` a WebSocket [RPC100]. See Access for who may call what."""

    version: str
    rollup: RollupConfig
    addr: str = "127.0.0.1"
    port: int = 0
    enable_admin: bool = False
    metrics_enabled: bool = False
    metrics_addr: str = "127.0.0.1"
    metrics_port: int = 0
    metrics_dir: str = ""
    dependency_set: DependencySet | None = None
    p2p: bool = False
    finds_peers: bool = True
    databases: dict[str, str] = {}
    conductor_enabled: bool = False
    safedb: bool = False
    sequencer_api: bool = False
    pprof_enabled: bool = False
    pprof_addr: str = ""
    pprof_port: int = 0
    pprof_dir: str = ""
    interop_addr: str | None = None
    interop_port: int = 0
    interop_jwt: bytes = b""
    derives: bool = True
    vhosts: tuple[str, ...] = ("*",)
    cors_domains: tuple[str, ...] = ()
    jwt_secret: bytes | None = None
    network: str = ""
    processes_file: str = ""
    aside_file: str = ""
    url_file: str = ""
    reload_file: str = ""
    l1_confs: int = 0
    ready_l1_lag: int = 0
    ready_safe_age: float = 0.0
    ready_unsafe_age: float = 0.0
    status_enabled: bool = False
    status_addr: str = ""
    status_port: int = 0
    ws_enabled: bool = False
    verified: bool = False


class RpcProcessConfig(msgspec.Struct, frozen=True):
    """The chains that the rpc process serves, by group: the only one, "", at `/`, or several at `/<chain id>/` [SNO7].

    The servers are those of the first."""

    chains: dict[str, RpcConfig]
