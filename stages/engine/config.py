"""The configuration of the engine process."""

import msgspec

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.l1_chains import L1Chain


class EngineConfig(msgspec.Struct, frozen=True):
    """The execution engine's endpoint, the chain, and how to sequence.

    Times are seconds, `sequencer_l1_confs` and the finality values L1 blocks, None for the rule's own number,
    `sequencer_max_safe_lag` L2 blocks, 0 for none. `sequencer_state_file` keeps what admin calls set for the life of
    the node, `admin_state_file` over restarts; a conductor decides by itself. `fill_gaps`: blocks that the unsafe chain
    lacks may be requested from the p2p process, and `gaps_from_engine`: the engine fetches them first [UNS6].
    `offset_el_safe` is how far behind the end of EL sync the safe head is set [ELS5]. With `follow_url` there is no
    derivation process. `bundle_auto` takes the upgrade bundle of the chain, if the node carries it [UPG25, UPG26].
    Unless `engine_kind_given` the engine's name decides, and `engine_kind` is that of an engine without one. `network`
    is the built-in network with the chain's fork times, empty for none. `verified`: an interop process verifies the
    chain's messages, and says which blocks are denied, safe and final."""

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
    verified: bool = False
