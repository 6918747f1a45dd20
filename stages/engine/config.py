"""The configuration of the engine process."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import L1Chain


class EngineConfig(msgspec.Struct, frozen=True):
    """The execution engine's endpoint, the chain, and how to sequence.

    `timeout` of one call and `sealing_duration` in seconds; `sequencer_l1_confs` and the finality values in L1 blocks,
    None for the rule's own number; `sequencer_max_safe_lag` in L2 blocks, 0 for none. `halt` is the level at which an
    outdated protocol version halts the node. `sequencer_state_file` keeps what admin calls set about the sequencer, for
    the life of the node, and `admin_state_file` whether it is started, over restarts. A conductor decides about that by
    itself; it is at `conductor_url`, and a call takes at most `conductor_timeout` seconds. `p2p`: there is a p2p
    process; `fill_gaps`: blocks that the unsafe chain lacks may be requested from it, and `gaps_from_engine`: the
    engine fetches them first [UNS6]. `safedb_path` is the file of the safe head database; None: safe heads are not
    recorded. `el_sync`: the engine fetches the chain first; `offset_el_safe` is how far behind its end the safe head is
    set then, in seconds [ELS5]. `interop`: a supervisor manages the node [IOP4]. With `follow_url` the heads of that
    node are followed, and there is no derivation process; a call takes at most `follow_timeout` seconds. With
    `bundle_auto` the node takes the upgrade bundle of the chain if it carries it; it writes bundles to `bundle_dir`
    [UPG25, UPG26]. Unless `engine_kind_given` the engine's name decides, and `engine_kind` is that of an engine without
    one. `network` is the built-in network with the chain's fork times, empty for none."""

    url: str
    jwt_secret: bytes
    timeout: float
    engine_kind: str
    rollup: RollupConfig
    l1_chain: L1Chain
    sequencer_enabled: bool = False
    sequencer_stopped: bool = False
    sequencer_l1_confs: int = 4
    sequencer_max_safe_lag: int = 0
    sequencer_recover: bool = False
    sdm_opt_in: bool = False
    sealing_duration: float = 0.05
    conductor_enabled: bool = False
    conductor_url: str = ""
    conductor_timeout: float = 1.0
    finality_lookback: int | None = None
    finality_delay: int | None = None
    withdrawal_root_from_state: bool = False
    skip_sync_start_check: bool = False
    halt: str | None = None
    sequencer_state_file: str = ""
    admin_state_file: str | None = None
    p2p: bool = False
    fill_gaps: bool = True
    gaps_from_engine: bool = True
    safedb_path: str | None = None
    el_sync: bool = False
    offset_el_safe: float = 0.0
    interop: bool = False
    follow_url: str | None = None
    engine_kind_given: bool = True
    network: str = ""
    follow_timeout: float = 10.0
    bundle_auto: bool = False
    bundle_dir: str = "."
