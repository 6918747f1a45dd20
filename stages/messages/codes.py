"""Codes of warnings and errors: the word that log lines, health, `/readyz` and `rollup-node check` name them by, what
it means and what to do [LOG15, LIF24]. `rollup-node explain CODE` prints an entry, docs/codes.md lists all."""

import re

from rollup_node.stages.messages.code_entry import EVENT, FINDING, CodeEntry


class Code(CodeEntry):
    """The table."""

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
    RETRYING = (
        "A step of a process fails, for a reason that has no code of its own, and is repeated until it succeeds.",
        "the line has the reason; if it names an endpoint, see whether that runs and is the right one",
    )

    L1_THROTTLED = (
        "The L1 endpoint refuses requests because there are too many of them (HTTP status 429). It is left alone for as"
        " long as its Retry-After asks.",
        "set --l1.rpc-rate-limit and --l1.max-concurrency to what the provider allows, give more endpoints with --l1,"
        " or take a plan with more requests",
    )
    L1_BLOCK = (
        "An L1 block that derivation or the engine waits for cannot be read: the endpoint lacks it or its receipts, or"
        " returns data that do not have the block's hash.",
        "see whether the endpoint named is synced and keeps full history, and give several with --l1",
    )
    L1_STALE = (
        "The L1 head has not changed for minutes: the endpoint has stopped following its chain, or the chain has"
        " stopped.",
        "compare the endpoint's latest block with another one's; see whether its beacon node runs; give several"
        " endpoints with --l1",
    )
    L1_CONTRADICTS = (
        "L1 data contradict each other: a finalized block is above the head, not on the chain, or below one that was"
        " finalized, or a block does not link to the known ones. The known finalized block stays in force.",
        "see whether a load balancer in --l1 mixes nodes of different chains or states, and use a consistent endpoint",
    )
    FINALITY_STALE = (
        "L1's finalized block has not changed for an hour, while its head has: L2 is not finalized either.",
        "compare the endpoint's finalized block with another one's: either L1 does not finalize, or the endpoint's"
        " beacon node does not follow it",
    )

    ENGINE_ANSWER = (
        "The execution engine answers, but does not do what is asked: it is syncing, busy, or returns an error.",
        "the line has its words: see its log, whether it is synced, and its disk",
    )
    EL_SYNC_STALLED = (
        "The execution engine syncs by itself (EL sync), and has got no new block for five minutes.",
        "see whether the engine has peers, begin it from a snapshot, or start with --syncmode=consensus-layer",
    )
    FORK_MISMATCH = (
        "The execution engine and this node do not have the same forks at the time of a block: it refuses attributes"
        " for a field that a fork adds. The node ends with exit code 77.",
        "compare the fork's time in --rollup.config or --network with that in the engine's genesis, upgrade the older"
        " program, or set the time with --override.FORK; a service manager must not restart the node after"
        " exit code 77",
    )
    RESET_LOOP = (
        "Derivation has been reset three times or more for the same reason, and begins again each time.",
        "the line has the reason: an L1 endpoint of another chain or behind (L1-CHAIN, L1-CONTRADICTS), an engine that"
        " lost blocks, or wrong forks (FORK-MISMATCH)",
    )
    SYNC_SLOW = (
        "The node is behind, and its safe head moves slower than the chain grows: the sync does not end at this speed.",
        "limited_by in the line says which part is slow: l1 or blobs, a faster or nearer endpoint or a higher"
        " --l1.max-concurrency; compute, more --workers; engine, the disk of the execution engine; or sync with"
        " --syncmode=execution-layer",
    )
    ALTDA_MISSING = (
        "The DA server answers that it does not have an input that derivation waits for.",
        "see whether --altda.da-server is the chain's; someone must challenge the commitment on L1 before its window"
        " ends, if no server has the input",
    )
    ALTDA_UNREACHABLE = (
        "The DA server does not answer, or returns what is not the input of the commitment.",
        "see whether the server of --altda.da-server runs, its URL, and whether it is the chain's",
    )
    CONDUCTOR_UNREACHABLE = (
        "The conductor does not answer. Without it this sequencer builds no blocks.",
        "see whether the conductor runs, and --conductor.rpc; admin_overrideLeader sequences without it",
    )
    SEQUENCER_WAITS = (
        "The sequencer cannot build a block now.",
        "the line has the reason, usually an L1 origin that is missing: see the L1 endpoint, and --sequencer.l1-confs;"
        " or the code of the conductor or the engine that it waits for",
    )
    SAFEDB = (
        "The safe head database cannot be written or read.",
        "see the disk, and the permissions of --safedb.path; the node goes on when it can be written again",
    )
    BEHIND = (
        "Derivation is further behind L1 than --rpc.ready-l1-lag allows, so that the node is not ready.",
        "wait if the node is syncing (the line `syncing` has the speed); otherwise see the other codes in the log",
    )
    HEAD_OLD = (
        "An L2 head is older than --rpc.ready-unsafe-age or --rpc.ready-safe-age allows: the node is not ready.",
        "the unsafe head needs the sequencer and peers (rollup-node p2p doctor), the safe head batches and L1: see the"
        " other codes in the log",
    )
    PROCESS_SILENT = (
        "A process of the node has sent no status for seconds: it starts, or is overloaded or stopped.",
        "see its last log lines, and whether the machine has processor time and memory left",
    )
    MEMORY = (
        "The machine, or the container, has little memory left; the system may kill a process.",
        "give it more memory, lower --l1.cache-size and --workers, or move the execution engine to another machine",
    )
    LOG_DROPPED = (
        "Log lines were dropped: whoever reads the log is slower than it is written.",
        "read the log faster, or set a lower --log.level",
    )
    PEER_STREAMS = (
        "Peers opened more streams than their share, which were dropped.",
        "nothing, unless the peers are your own: the bound protects the node",
    )
    BLOCK_SIGNER = (
        "The unsafe block signer on L1 is missing, or is not the key of this sequencer: gossiped blocks are refused.",
        "give the key of the address in the line with --p2p.sequencer.key or --signer.endpoint, or set it in the"
        " chain's system config",
    )
    P2P_NAT = (
        "No gateway maps the ports of the node (--p2p.nat).",
        "forward the ports of --p2p.listen.tcp and --p2p.listen.udp on the router, and give --p2p.advertise.ip",
    )
    BOOTNODE = (
        "The host name of a bootnode cannot be resolved, or its record has no address that can be reached.",
        "see --p2p.bootnodes and the name server of this machine",
    )
    RUNTIME_CONFIG = (
        "The unsafe block signer and the protocol versions cannot be read from L1. The last ones stay in force.",
        "see the L1 endpoint's words in the line; it needs eth_getStorageAt, and eth_getProof unless it is trusted",
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
    )
    TLS_CERTIFICATE = (
        "The certificate of an endpoint is not accepted.",
        "install the certificate of its authority on this machine, renew an expired certificate, or use the host name"
        " that it is for",
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
    )
    L1_CHAIN = (
        "The L1 endpoint is of another chain than the L1 of the rollup.",
        "check --l1 and --network or --rollup.config",
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
        "The execution engine, or the L2 source of a command, does not answer, or not as JSON-RPC.",
        "see whether it runs, and its URL in --l2: a node takes the engine's authenticated port (usually 8551), a"
        " command that reads L2 blocks also the public one",
    )
    ENGINE_AUTH = (
        "The execution engine rejects our JWT: its secret is another one.",
        "give the secret file of the engine with --l2.jwt-secret",
    )
    ENGINE_VHOST = (
        "The execution engine does not accept the host name in --l2.",
        "add the host name to the engine's --authrpc.vhosts, or use the address 127.0.0.1",
    )
    ENGINE_CLOCK = (
        "The execution engine rejects our JWT for its time: the clocks differ by more than the 60 seconds that it"
        " allows.",
        "synchronize the clocks of both machines by NTP: the secret is not the reason",
    )
    ENGINE_PUBLIC_PORT = (
        "The port in --l2 is the public RPC port of the engine, which has no Engine API.",
        "give the authenticated port with --l2, usually 8551",
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
    )
    BEACON_CHAIN = (
        "The beacon node is of another chain than L1.",
        "check --l1.beacon: it has to be a beacon node of the chain of --l1",
    )
    SIGNER_UNREACHABLE = (
        "The remote signer does not answer, or not as a signer.",
        "check --signer.endpoint, that the signer runs",
    )
    FOLLOW_UNREACHABLE = (
        "The node whose heads are to be followed does not answer. Without it gossip is followed.",
        "check --l2.follow.source: whether it runs",
    )
    FOLLOW_CHAIN = (
        "The node whose heads are to be followed is of another chain.",
        "check --l2.follow.source",
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
        "No peer is connected, or the options name none: neither bootnodes nor static peers.",
        "give --p2p.bootnodes or --p2p.static; rollup-node p2p doctor says why peers do not connect",
    )
    PEERS_ADDRESS = (
        "The address that is advertised to peers is not a public one, so that others cannot connect.",
        "give the public address with --p2p.advertise.ip, or --p2p.nat behind a home router",
        FINDING,
    )
    PEER_UNREACHABLE = (
        "A static peer accepts no connection.",
        "see whether it runs, and its address in --p2p.static",
    )
    NO_RESULT = (
        "A check did not end in time, or failed by itself.",
        "run the check again; if it fails the same way, report it as a bug with this line",
        FINDING,
    )

    L1_REORG = (
        "The L1 chain was reorganized: the blocks of the old branch are replaced.",
        "nothing; if it repeats with great depth, see whether a load balancer in --l1 mixes nodes of different states",
        EVENT,
    )
    ARCHIVE_DAMAGED = (
        "An entry in the archive of L1 data of `rollup-node history` is unreadable, or not what its name says. It is"
        " fetched again, and replaced if the folder can be written.",
        "nothing; if it repeats, see whether the disk is sound and who else writes to the folder",
        EVENT,
    )
    ARCHIVE_UNWRITABLE = (
        "What is fetched cannot be written to the archive of L1 data of `rollup-node history`. The work goes on without"
        " it.",
        "see whether the disk is full and whether this user may write there",
    )
    L1_SUBSCRIPTION = (
        "The L1 endpoint's WebSocket does not notify of new heads. The head is polled instead.",
        "nothing, or give an endpoint that supports eth_subscribe",
        EVENT,
    )
    L1_NOT_POLLED = (
        "L1 is not polled, because an interval is 0: the head is not known, or L2 blocks are not finalized.",
        "set --l1.http-poll-interval and --l1.epoch-poll-interval",
        EVENT,
    )
    RESET = (
        "Derivation begins again from an earlier L1 block, since the chain below it changed.",
        "nothing, unless it repeats: then RESET-LOOP says so",
        EVENT,
    )
    INPUT_DROPPED = (
        "Derivation dropped data from the batch inbox by a rule of the protocol, which the line names.",
        "rollup-node explain --rpc lists the last ones with their rules, docs/drop-reasons.md has all of them; see the"
        " chain's batcher if they are its own",
        EVENT,
    )
    BLOCK_REPLACED = (
        "A block that was derived is not the unsafe block, or the engine found its transactions invalid. The derived"
        " chain counts.",
        "nothing; on a sequencer, see its log and the batcher's for the block in the line",
        EVENT,
    )
    UNSAFE_BLOCK = (
        "An unsafe block, gossiped by the sequencer, was found invalid by the engine and dropped.",
        "compare versions and forks of engine and node with the sequencer's",
        EVENT,
    )
    ALTDA_LOST = (
        "An input of an Alt-DA commitment is lost, and can be challenged no more: the next block cannot be derived. The"
        " node ends with exit code 70.",
        "find a DA server that has the input, and give it with --altda.da-server",
        EVENT,
    )
    CRITICAL = (
        "A rule that always holds is broken: the node ends with exit code 70 rather than go on with a wrong state.",
        "keep the log, and report it as a bug unless the line names an option or an endpoint",
        EVENT,
    )
    PROTOCOL_VERSION = (
        "L1 requires or recommends a newer protocol version than this node supports; with --rollup.halt the node ends"
        " with exit code 75.",
        "upgrade rollup-node",
        EVENT,
    )
    BUG = (
        "An error that the program does not expect; the traceback is in the line. The process is started again.",
        "report it with the line; nothing else if the node goes on",
        EVENT,
    )
    PROCESS_DIED = (
        "A process of the node died, hung, or could not be started; the supervisor starts it again.",
        "nothing if it happens once; otherwise see its last log lines, and the memory and processor of the machine",
        EVENT,
    )
    CRASH_LOOP = (
        "A process died so often that the node gives up: it ends with exit code 3.",
        "see the last log lines of the process for the cause",
        EVENT,
    )
    SLOW = (
        "A process takes long to start or to stop.",
        "see whether the machine has processor time left",
        EVENT,
    )
    MESSAGES_REFUSED = (
        "A process refused a message of another one, which does not fit the protocol between them.",
        "report it as a bug with this line",
        EVENT,
    )
    WORKER_FAILED = (
        "A worker process could not do a task, which is done elsewhere or again.",
        "nothing, unless it repeats: then see the lines of the workers, and the memory of the machine",
        EVENT,
    )
    FILE = (
        "A file or a database of the node cannot be read, written or removed. The line says what takes its place.",
        "see the permissions and the disk of the path in the line",
        EVENT,
    )
    SEQUENCER_STATE = (
        "Whether the sequencer is started cannot be read from its file, or stored in it.",
        "see the disk, and the permissions of the file in the line; start or stop the sequencer again with"
        " admin_startSequencer or admin_stopSequencer",
        EVENT,
    )
    SEQUENCER_ADMIN = (
        "The sequencer was stopped without its last block, or the leader was overridden, by an administrator.",
        "nothing if it was meant; otherwise see who may call the admin methods (--rpc.enable-admin)",
        EVENT,
    )
    BLOCK_NOT_SIGNED = (
        "A block of this sequencer was not signed: the signer failed, or it may be the second block of its height.",
        "see the signer named in the line, and that a single sequencer runs with this key",
        EVENT,
    )
    FOLLOW_SOURCE = (
        "The followed node went back, moved to another branch, or names a block that cannot be read.",
        "see whether --l2.follow.source is synced, and compare its blocks with another node's",
        EVENT,
    )
    SAFEDB_GAP = (
        "Blocks became safe that the safe head database lacks: it was away, or the node ran without it.",
        "nothing, unless proposers or challengers need those blocks: then derive them again with an empty database",
        EVENT,
    )
    RPC_CLIENTS = (
        "Connections of RPC clients were closed, because they are too many, too slow or malformed.",
        "see the client named in the line, and put a proxy with limits in front of a public RPC",
        EVENT,
    )


_CODES = {code.text: code for code in Code}
_WORD = re.compile(r"\b[A-Z][A-Z0-9-]+\b")


def code_in(text: str) -> Code | None:
    """The first code that a text names, such as a reason of `/readyz`; None if it names none."""
    return next((_CODES[word] for word in _WORD.findall(text) if word in _CODES), None)
