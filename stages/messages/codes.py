"""Codes of lasting conditions and of findings before a start: the word that log lines, health, `/readyz` and
`rollup-node check` name them by, what it means and what to do [LOG15, LIF24]. `rollup-node explain CODE` prints an
entry, docs/codes.md lists all."""

from enum import Enum

FINDING = "finding"


class Code(Enum):
    """The value is the meaning and the remedy, each one line, and FINDING for what the checks before a start alone
    find."""

    BLOB_EXPIRED = (
        "The blobs are older than the 18 days for which beacon nodes must keep them, and no source has them.",
        "add an archive of blobs with --l1.beacon-fallbacks, or begin from a snapshot of the engine that is younger",
    )
    BLOB_CUSTODY = (
        "A beacon node keeps too few of the data columns (PeerDAS) to put the blobs together.",
        "run it with --semi-supernode or --supernode (Lighthouse, Prysm; Lodestar has --supernode alone) or"
        " --p2p-subscribe-all-custody-subnets-enabled (Teku), or add another source with --l1.beacon-fallbacks",
    )
    BLOB_FILTER = (
        "A source answers with blobs, but not with those that were asked for: a proxy in front of it may have lost or"
        " changed the query.",
        "let the proxy pass query strings on, ask the beacon node itself, or set --l1.beacon.fetch-all-sidecars",
    )
    BLOB_WRONG = (
        "The blobs that a source offers do not have the versioned hashes of the L1 transactions.",
        "use another beacon node; this one, or something in front of it, changes data",
    )
    BLOB_SLOT = (
        "The beacon node has no block in the slot of an L1 block: it belongs to another chain, has not reached the"
        " slot, or began after it.",
        "compare --l1 and --l1.beacon, and whether the beacon node is synced and backfilled",
    )
    BLOB_NOT_FOUND = (
        "Every source answers that it does not have the blobs, though they are young enough to be kept.",
        "see whether the beacon node is synced and was up when the blobs were published, or add a source with"
        " --l1.beacon-fallbacks",
    )
    BLOB_SHAPE = (
        "The answer is not what this route of the Beacon API returns.",
        "see whether --l1.beacon names a beacon node: the execution client's URL goes to --l1",
    )
    BLOB_UNREACHABLE = (
        "No source of blobs answers, or each refuses.",
        "see whether the beacon node is up, and its URL, key and quota",
    )
    BLOB_NO_SOURCE = (
        "A batch is in blobs, and there is no endpoint to fetch them from.",
        "give one with --l1.beacon",
    )

    NO_BATCHES = (
        "No batch has been accepted for a tenth of the sequencing window. When the window ends, empty blocks take the"
        " place of the unsafe ones.",
        "see whether the chain's batcher is running and paid; if others sent to the inbox, whether the batcher in"
        " --rollup.config or of --network is the chain's; if batches were dropped, rollup-node explain --rpc says why",
    )

    L1_ENDPOINT = (
        "An L1 endpoint throttles, fails, is behind, or contradicts the others. It is set aside, and put back into use"
        " once it does well in a probe.",
        "see what the line says of it: its quota (--l1.rpc-rate-limit), whether it is up and synced, and its chain",
    )
    L1_DISAGREE = (
        "The L1 endpoints have different blocks of the same number, and no majority decides which is right; the first"
        " in --l1 is used.",
        "compare them with an endpoint of somebody else, and remove the wrong one from --l1; with three, a majority"
        " decides",
    )

    NETWORK_LEFT = (
        "The network follows forks of its own since a certain block; this node derives it up to the block before, and"
        " then ends with exit code 76.",
        "run the network's own node for later blocks (Base: base-consensus with base-reth-node); rollup-node networks"
        " lists each network's last block; a service manager must not restart the node after exit code 76",
    )
    OPTIONS = (
        "An option is missing or wrong, or contradicts another one.",
        "rollup-node config show prints each option with its origin",
        FINDING,
    )
    TLS_PORT = (
        "One side of the connection speaks TLS and the other does not.",
        "use http:// for a port without TLS, https:// for one with it",
        FINDING,
    )
    TLS_CERTIFICATE = (
        "The certificate of an endpoint is not accepted.",
        "install the certificate of its authority on this machine, renew an expired certificate, or use the host name"
        " that it is for",
        FINDING,
    )
    ENDPOINTS_SWAPPED = (
        "The URLs of execution node and beacon node are swapped: --l1 names a beacon node, or --l1.beacon an execution"
        " node.",
        "see whether --l1 and --l1.beacon are swapped: --l1 is the JSON-RPC of the execution node (usually port 8545),"
        " --l1.beacon the API of the beacon node (usually port 5052 or 3500)",
        FINDING,
    )
    CLOCK = (
        "The clock of this machine and that of an endpoint differ.",
        "synchronize the clocks by NTP: timedatectl says whether this machine does",
        FINDING,
    )
    L1_UNREACHABLE = (
        "An L1 endpoint does not answer, or not as JSON-RPC.",
        "check --l1: whether it runs, and its URL, key and quota",
        FINDING,
    )
    L1_CHAIN = (
        "The L1 endpoint is of another chain than the L1 of the rollup.",
        "check --l1 and --network or --rollup.config",
        FINDING,
    )
    L1_HEAD = (
        "The latest block of the L1 endpoint is old: the endpoint is syncing, or its chain has stopped.",
        "wait until it is synced, or use another one",
        FINDING,
    )
    L1_METHODS = (
        "The L1 endpoint lacks a method: receipts are fetched one by one without eth_getBlockReceipts, and the block"
        " signer is not proven without eth_getProof.",
        "enable the method, choose another one by --l1.rpckind, or use another endpoint",
        FINDING,
    )
    ENGINE_UNREACHABLE = (
        "The execution engine does not answer, or not as JSON-RPC.",
        "check --l2: whether it runs, and its authenticated port",
        FINDING,
    )
    ENGINE_AUTH = (
        "The execution engine rejects our JWT: its secret is another one.",
        "give the secret file of the engine with --l2.jwt-secret",
        FINDING,
    )
    ENGINE_VHOST = (
        "The execution engine does not accept the host name in --l2.",
        "add the host name to the engine's --authrpc.vhosts, or use the address 127.0.0.1",
        FINDING,
    )
    ENGINE_CLOCK = (
        "The execution engine rejects our JWT for its time: the clocks differ by more than the 60 seconds that it"
        " allows.",
        "synchronize the clocks of both machines by NTP: the secret is not the reason",
        FINDING,
    )
    ENGINE_PUBLIC_PORT = (
        "The port in --l2 is the public RPC port of the engine, which has no Engine API.",
        "give the authenticated port with --l2, usually 8551",
        FINDING,
    )
    ENGINE_CHAIN = (
        "The execution engine has another chain than that of the rollup.",
        "check --l2 and --network or --rollup.config",
        FINDING,
    )
    ENGINE_CAPABILITIES = (
        "The engine does not name a method of the Engine API that a fork of the chain needs.",
        "upgrade the execution engine to a release that knows the fork",
        FINDING,
    )
    ENGINE_FORKS = (
        "A block of the engine has the fields of other forks than those of the configuration.",
        "compare the fork times of --network, --rollup.config and --override.* with those of the engine's genesis",
        FINDING,
    )
    ENGINE_METHODS = (
        "The engine lacks eth_getProof, which optimism_outputAtBlock needs for blocks before Isthmus.",
        "enable the eth namespace on the authenticated port of the engine",
        FINDING,
    )
    BEACON_UNREACHABLE = (
        "The beacon node does not answer, or not as a Beacon API.",
        "check --l1.beacon, or start without this check by --l1.beacon.ignore",
        FINDING,
    )
    BEACON_CHAIN = (
        "The beacon node is of another chain than L1.",
        "check --l1.beacon: it has to be a beacon node of the chain of --l1",
        FINDING,
    )
    SIGNER_UNREACHABLE = (
        "The remote signer does not answer, or not as a signer.",
        "check --signer.endpoint, that the signer runs",
        FINDING,
    )
    FOLLOW_UNREACHABLE = (
        "The node whose heads are to be followed does not answer. Without it gossip is followed.",
        "check --l2.follow.source: whether it runs",
        FINDING,
    )
    FOLLOW_CHAIN = (
        "The node whose heads are to be followed is of another chain.",
        "check --l2.follow.source",
        FINDING,
    )
    JWT_FILE = (
        "The file of a JWT secret is missing or cannot be used; a start makes a new secret in a missing one.",
        "give the file that the execution engine has as well with --l2.jwt-secret",
        FINDING,
    )
    PORT_TAKEN = (
        "A port on which the node listens is in use, or given twice.",
        "stop the program that uses it, or give another port",
        FINDING,
    )
    PORT_ADDRESS = (
        "The node cannot listen on an address: it is none of this machine's, or the port needs privileges.",
        "give an address of this machine, 0.0.0.0 for all, and a port above 1023",
        FINDING,
    )
    DIRECTORY = (
        "A directory in which the node keeps files cannot be written.",
        "make it writable for the user of the node, or give another path",
        FINDING,
    )
    DISK = (
        "A disk on which the node keeps files is nearly full.",
        "free some space, or give a path on another disk",
        FINDING,
    )
    PEERS_NONE = (
        "The options name no peer: neither bootnodes nor static peers.",
        "give --p2p.bootnodes or --p2p.static",
        FINDING,
    )
    PEERS_ADDRESS = (
        "The address that is advertised to peers is not a public one, so that others cannot connect.",
        "give the public address with --p2p.advertise.ip, or --p2p.nat behind a home router",
        FINDING,
    )
    PEER_UNREACHABLE = (
        "A static peer accepts no connection.",
        "see whether it runs, and its address in --p2p.static",
        FINDING,
    )
    NO_RESULT = (
        "A check did not end in time, or failed by itself.",
        "run the check again; if it fails the same way, report it as a bug with this line",
        FINDING,
    )

    @property
    def text(self) -> str:
        """The code as it is written, such as BLOB-EXPIRED."""
        return self.name.replace("_", "-")

    @property
    def meaning(self) -> str:
        """What the condition is."""
        return str(self.value[0])

    @property
    def remedy(self) -> str:
        """What the operator can do."""
        return str(self.value[1])

    @property
    def is_finding(self) -> bool:
        """Whether the checks before a start alone have this code, and no condition of a running node."""
        return FINDING in self.value[2:]
