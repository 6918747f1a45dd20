"""Options that choose the chain and its rules."""

from rollup_node.node.options.option import Option, Section, ignored
from rollup_node.node.options.value_types import BOOL, COUNT, DURATION, NETWORK_NAME, OPTIONAL_COUNT, PATH, enum
from rollup_node.stages.derivation.config import DerivationConfig
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.protocol.forks.bundles import SELECTABLE
from rollup_node.stages.protocol.forks.table import OVERRIDABLE

OLD_OVERRIDES = {"lagoon": (("override.interop", "NODE_OVERRIDE_INTEROP"),)}
"""By fork, the option that sets its time in older versions of op-node, and its variable."""

NETWORK = Section(
    "Network and rollup",
    Option(
        "network",
        NETWORK_NAME,
        "A built-in network, as `<chain>-mainnet` or `<chain>-sepolia`; overrides rollup.config.",
    ),
    Option("rollup.config", PATH, "File with the chain's parameters (rollup.json)."),
    Option(
        "rollup.halt",
        enum("major", "minor", "patch", "none"),
        "Halt when L1 requires a protocol version that is newer than this node's by this level.",
        field=EngineConfig.halt,
    ),
    Option(
        "rollup.load-protocol-versions",
        BOOL,
        "Read the protocol versions that L1 signals; rollup.halt does this by itself.",
        hidden=True,
    ),
    Option(
        "rollup.l1-chain-config",
        PATH,
        "JSON file with the L1 chain's configuration, at the top level or under `config`; not needed for "
        "public L1 networks.",
    ),
    *(
        Option(
            f"rollup.{fork}-bundle",
            PATH,
            f"File with the upgrade transactions of {fork} ({fork}_nut_bundle.json of op-node's repository, at"
            " the tag of the release that the chain runs), instead of the built-in ones; `auto` lets the node"
            " choose among the built-in ones what the sequencer's block and L1 confirm.",
        )
        for fork in SELECTABLE
    ),
    Option(
        "rollup.bundle-dir",
        PATH,
        "Folder for upgrade bundles that the node reads out of a block, and for the choice of `auto`.",
        default=".",
        field=EngineConfig.bundle_dir,
        hidden=True,
    ),
    Option(
        "rollup.span-overlap-check",
        BOOL,
        "Compare the part of a span batch that overlaps the safe chain also from Holocene on.",
        default="true",
        field=DerivationConfig.span_overlap_check,
        hidden=True,
    ),
    Option(
        "ignore-missing-pectra-blob-schedule",
        BOOL,
        "Start even if the chain probably lacks its Pectra blob schedule time.",
        hidden=True,
    ),
    Option(
        "syncmode",
        enum("consensus-layer", "execution-layer"),
        "Derive every block from L1, or let the execution engine fetch the chain first.",
        default="consensus-layer",
    ),
    Option(
        "syncmode.req-resp",
        BOOL,
        "Request missing unsafe blocks from peers instead of having the execution engine fetch them.",
    ),
    Option(
        "syncmode.offset-el-safe",
        DURATION,
        "How far behind the tip the safe and the finalized head are set after EL sync. With less than L1 takes"
        " to finalize, the finalized head is one that L1 has not finalized.",
        default="12h0m0s",
    ),
    Option(
        "finality.lookback",
        OPTIONAL_COUNT,
        "Number of L1 blocks remembered for finality, instead of the usual number.",
        field=EngineConfig.finality_lookback,
    ),
    Option(
        "finality.delay",
        OPTIONAL_COUNT,
        "Number of L1 blocks between attempts to finalize, instead of the usual number.",
        field=EngineConfig.finality_delay,
    ),
    ignored("beta.extra-networks", BOOL, warning="all networks are always available"),
)

OVERRIDES = Section(
    "Fork overrides",
    *(
        Option(
            f"override.{fork}",
            COUNT,
            f"Activation time of {fork} in Unix seconds, instead of the chain's own; applies only if set "
            "(0: from genesis).",
            default="0",
            old_names=OLD_OVERRIDES.get(fork, ()),
        )
        for fork in OVERRIDABLE
    ),
    Option(
        "override.keep-karst-upgrade-gas",
        BOOL,
        "Keep the gas limit to which Karst's upgrade block raised it; applies only if set.",
    ),
)
