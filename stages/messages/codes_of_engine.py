"""The form of a code, and the codes that concern the execution engine; `codes` has the table."""

from enum import Enum

FINDING, EVENT = "finding", "event"


class CodeEntry(Enum):
    """A member is written as its meaning and its remedy, each one line; its value is its place in the table.

    FINDING marks what the checks before a start alone find, EVENT what happens at one moment; all others name
    conditions that last. Messages carry members."""

    def __new__(cls, meaning: str, remedy: str, kind: str = "") -> "CodeEntry":
        entry = object.__new__(cls)
        entry._value_ = len(cls.__members__)
        entry.meaning, entry.remedy, entry.kind = meaning, remedy, kind
        return entry

    meaning: str
    """What the condition is."""
    remedy: str
    """What the operator can do."""
    kind: str

    @property
    def text(self) -> str:
        """The code as it is written, such as BLOB-EXPIRED."""
        return self.name.replace("_", "-")

    @property
    def is_finding(self) -> bool:
        """Whether the checks before a start alone have this code, and no condition of a running node."""
        return self.kind == FINDING

    @property
    def is_event(self) -> bool:
        """Whether it names what happens at one moment, and no condition that lasts."""
        return self.kind == EVENT


ENGINE_ANSWER = (
    "The execution engine responds, but does not do what the node requests: it is syncing, busy, or returns an error.",
    "see the engine's response in the line and its log; check that it is synced, and check its disk",
)
ENGINE_CONTRADICTS = (
    "The execution engine sealed a block that is not the one that it was asked to build. The node does not insert"
    " the block, and has it built again.",
    "see the difference in the line: check that --l2 is one engine and no load balancer over several, and compare"
    " its forks and release with those of other nodes",
)
BUILD_LOST = (
    "The execution engine begins to build a derived block, and does not return it. The node finds nothing wrong with"
    " its transactions, and has it built again.",
    "see the engine's response in the line; op-reth has the cause in its log, in the line payload_builder: failed to"
    " resolve pending payload; check its disk and memory, and try another release if it never builds the block",
)
ENGINE_LOST_BLOCKS = (
    "The execution engine restarted with a head below the finalized block: its database was replaced, wiped or"
    " restored from a backup. The node derives the missing blocks again.",
    "check the engine's data directory and its disk; an engine with an empty database syncs faster from a snapshot or"
    " with --syncmode=execution-layer",
    EVENT,
)
EL_SYNC_STALLED = (
    "The execution engine gets no blocks from its own peers: in EL sync none for five minutes, otherwise not the"
    " one above a gap of unsafe blocks or the one that a follow source names. Other work goes on.",
    "check that the engine has peers; for EL sync, start it from a snapshot, or the node with"
    " --syncmode=consensus-layer; for a gap, see --syncmode.req-resp; compare a follow source with another node",
)
FORK_MISMATCH = (
    "The execution engine and this node have different forks at the time of a block: the engine refuses attributes"
    " because of a field that a fork adds. The node exits with code 77. Before a fork: the engine's release or its"
    " configuration lacks it, and the line says how many days are left.",
    "compare the fork's time in --rollup.config or --network with the engine's genesis, upgrade the older program,"
    " or set the time with --override.FORK; a service manager must not restart the node after exit code 77",
)
ENGINE_UNREACHABLE = (
    "The execution engine, or the L2 source of a command, does not respond, or its response is not JSON-RPC.",
    "check that it is up, and check its URL in --l2: a node needs the engine's authenticated port (usually 8551),"
    " a command that reads L2 blocks also works with the public port",
)
ENGINE_SLOW = (
    "The execution engine is up, and does not answer a call in time (--l2.engine-rpc-timeout).",
    "wait if it was started a moment ago: op-reth fills a cache before its first answer (its option"
    " engine.cross-block-cache-size); otherwise check its CPU, memory and disk, and what else runs on its machine",
)
ENGINE_AUTH = (
    "The execution engine rejects our JWT because its secret is different.",
    "use the engine's secret file in --l2.jwt-secret",
)
ENGINE_VHOST = (
    "The execution engine does not accept the host name in --l2.",
    "add the host name to the engine's --authrpc.vhosts, or use the address 127.0.0.1",
)
ENGINE_CLOCK = (
    "The execution engine rejects our JWT because of its time: the clocks differ by more than the 60 seconds that"
    " the engine allows.",
    "synchronize the clocks of both machines with NTP; the secret is not the reason",
)
ENGINE_PUBLIC_PORT = (
    "The port in --l2 is the public RPC port of the engine, which has no Engine API.",
    "set --l2 to the authenticated port, usually 8551",
)
ENGINE_CHAIN = (
    "The execution engine is not on the chain of the rollup.",
    "check --l2, and --network or --rollup.config",
    FINDING,
)
ENGINE_KIND = (
    "The execution engine says that it is another one than --l2.enginekind.",
    "remove --l2.enginekind, then the engine's own name decides, or set it to the engine's kind",
    FINDING,
)
ENGINE_CAPABILITIES = (
    "The engine does not list a method of the Engine API that a fork of the chain needs.",
    "upgrade the execution engine to a release that supports the fork",
    FINDING,
)
ENGINE_FORKS = (
    "A block of the engine has the fields of forks other than the configured ones.",
    "compare the fork times of --network, --rollup.config and --override.* with those of the engine's genesis",
    FINDING,
)
ENGINE_METHODS = (
    "The engine lacks eth_getProof, which optimism_outputAtBlock needs for blocks before Isthmus.",
    "enable the eth namespace on the authenticated port of the engine",
    FINDING,
)
BLOCK_REPLACED = (
    "A derived block differs from the unsafe block, or the engine found its transactions invalid. The derived"
    " chain counts.",
    "nothing; on a sequencer, look for the block of the line in its log and in the batcher's",
    EVENT,
)
TRANSACTION_LEFT_OUT = (
    "The execution engine left out a transaction of a derived block that it cannot execute (op-reth), instead of"
    " refusing the block (op-geth). The node replaced the block by one of its deposits, as the fault proofs do, or"
    " dropped it before Holocene.",
    "look for the transaction of the line in the batcher's log; op-node with op-reth takes the block without it, and"
    " is on another chain from there on",
    EVENT,
)
TRANSACTION_INVALID = (
    "A derived block has a transaction that no execution engine can execute. The node replaced the block by one of"
    " its deposits, as the fault proofs do, or dropped it before Holocene.",
    "look for the transaction of the line in the batcher's log",
    EVENT,
)
UNSAFE_BLOCK = (
    "The engine found an unsafe block from the sequencer's gossip invalid, and the node dropped it.",
    "compare the versions and forks of engine and node with the sequencer's",
    EVENT,
)
