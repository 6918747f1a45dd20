"""The databases of a node: opened once before the start, so that an unusable one ends it with a clear error."""

from collections.abc import Callable

from rollup_node.node.options.values import Values
from rollup_node.node.setup.notices import Notice
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.engine.process.safe_heads import SafeHeadStore
from rollup_node.stages.engine.process.sequencer_store import AdminStateError, AdminStateFile
from rollup_node.stages.interop.config import InteropProcessConfig
from rollup_node.stages.interop.io.store import InteropStore
from rollup_node.stages.io.files.sqlite_file import StoreError
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.p2p.storage.io.node_database import NodeDatabase
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.protocol.config import RollupConfig


def sequencer_stopped(values: Values, notice: Callable[[Notice], None]) -> bool:
    """Whether the sequencer begins stopped: by what `rpc.admin-state` has stored, or else by `sequencer.stopped`.

    What counts is stored [ADM1 to ADM5]. Raises SetupError when the file cannot be used, or has a state that the
    conductor alone decides about."""
    path, stopped = values["rpc.admin-state"], bool(values["sequencer.stopped"])
    if path is None or not values["sequencer.enabled"]:
        return stopped
    file = AdminStateFile(path)
    try:
        stored = file.load().sequencer_started
        if values["conductor.enabled"]:
            if stored is not None:
                raise SetupError(
                    f"config persistence must be disabled when conductor is enabled: remove --rpc.admin-state={path}"
                )
            return stopped
        if stored is not None and stored == stopped:
            begins = "started" if stored else "stopped"
            notice(
                Notice(Level.WARN, f"the sequencer begins {begins}, as {path} has it, whatever sequencer.stopped says")
            )
            stopped = not stored
        file.store(started=not stopped)
    except AdminStateError as error:
        raise SetupError(f"{error} (--rpc.admin-state)") from None
    return stopped


def check_interop_store(config: InteropProcessConfig) -> None:
    """Open and close the interop database as `check_state_files` does with those of a chain [VDB2]."""
    try:
        InteropStore(config.store_path, config.dependency_set, check=True).close()
    except StoreError as error:
        raise SetupError(str(error)) from None


def check_state_files(config: P2pConfig | None, rollup: RollupConfig, safedb_path: str | None) -> None:
    """Open and close the databases that are used, and create those that are missing.

    Peerstore, discovery, signed blocks, safe heads. Raises SetupError when one is damaged, belongs to another node,
    or cannot be created."""
    try:
        if config is not None:
            PeerStore(config.peerstore_path).close()
            if not config.no_discovery:
                NodeDatabase(config.discovery_path).close()
            if config.has_signer:
                SignedBlocksFile(rollup.genesis.l2.hash, config.signed_blocks_path).close()
        if safedb_path is not None:
            SafeHeadStore(safedb_path, rollup, check=True).close()
    except StoreError as error:
        raise SetupError(str(error)) from None
