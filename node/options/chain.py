"""Options that say which chain is followed and by which rules."""

from rollup_node.node.options.kinds import BOOL, COUNT, DURATION, PATH, TEXT, enum
from rollup_node.node.options.model import Option, Section
from rollup_node.stages.protocol.forks.table import FORK_NAMES, OPTIONAL_FORK

OVERRIDABLE = (*FORK_NAMES[2:], OPTIONAL_FORK)
"""Forks whose time an option can set."""

NETWORK = Section(
    "Network and rollup",
    (
        Option(
            *("network", TEXT, None, "NODE_NETWORK"),
            "A network built in, as `<chain>-mainnet` or `<chain>-sepolia`; it wins over rollup.config.",
        ),
        Option(*("rollup.config", PATH, None, "NODE_ROLLUP_CONFIG"), "File with the chain's parameters (rollup.json)."),
        Option(
            *("rollup.halt", enum("major", "minor", "patch", "none"), None, "NODE_ROLLUP_HALT"),
            "Halt when L1 signals a required protocol version that is newer than ours by this level.",
            missing="halting on protocol versions",
            harmless=("none",),
        ),
        Option(
            *("rollup.load-protocol-versions", BOOL, "false", "NODE_ROLLUP_LOAD_PROTOCOL_VERSIONS"),
            "Read the protocol versions that L1 signals; rollup.halt does so by itself.",
            hidden=True,
            missing="reading protocol versions",
        ),
        Option(
            *("rollup.l1-chain-config", PATH, None, "NODE_ROLLUP_L1_CHAIN_CONFIG"),
            "JSON file with the L1 chain's configuration, plain or under `config`; not needed for public L1 networks.",
        ),
        Option(
            *("rollup.span-overlap-check", BOOL, "true", "NODE_ROLLUP_SPAN_OVERLAP_CHECK"),
            "Compare the part of a span batch that overlaps the safe chain from Holocene on as well.",
            hidden=True,
        ),
        Option(
            *("ignore-missing-pectra-blob-schedule", BOOL, "false", "NODE_IGNORE_MISSING_PECTRA_BLOB_SCHEDULE"),
            "Start although the chain probably lacks its Pectra blob schedule time.",
            hidden=True,
        ),
        Option(
            *("syncmode", enum("consensus-layer", "execution-layer"), "consensus-layer", "NODE_SYNCMODE"),
            "Derive every block from L1, or let the execution engine fetch the chain first.",
            missing="sync by the execution layer",
        ),
        Option(
            *("syncmode.req-resp", BOOL, "false", "NODE_SYNCMODE_REQ_RESP"),
            "Fill gaps in the unsafe chain by requests to peers; p2p.sync.req-resp alone does so too.",
            hidden=True,
        ),
        Option(
            *("syncmode.offset-el-safe", DURATION, "12h0m0s", "NODE_SYNCMODE_OFFSET_EL_SAFE"),
            "How far behind the tip the safe head is set after the engine's own sync.",
        ),
        Option(
            *("finality.lookback", COUNT, None, "NODE_FINALITY_LOOKBACK"),
            "L1 blocks remembered for finality, in place of the usual number.",
        ),
        Option(
            *("finality.delay", COUNT, None, "NODE_FINALITY_DELAY"),
            "L1 blocks between attempts to finalize, in place of the usual number.",
        ),
        Option(
            *("beta.extra-networks", BOOL, "false", "NODE_BETA_EXTRA_NETWORKS"),
            "No effect.",
            hidden=True,
            warning="all networks are always available",
        ),
    ),
)

OVERRIDES = Section(
    "Fork overrides",
    (
        *(
            Option(
                *(f"override.{fork}", COUNT, "0", f"NODE_OVERRIDE_{fork.upper()}"),
                f"Activation time of {fork} in Unix seconds, in place of the chain's own; acts only when given "
                "(0: from genesis).",
            )
            for fork in OVERRIDABLE
        ),
        Option(
            *("override.keep-karst-upgrade-gas", BOOL, "false", "NODE_OVERRIDE_KEEP_KARST_UPGRADE_GAS"),
            "Keep the gas limit that Karst's upgrade block was raised to; acts only when given.",
        ),
    ),
)
