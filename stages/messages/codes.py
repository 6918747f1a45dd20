"""Codes of warnings and errors, by which logs, health, `/readyz` and `rollup-node check` name them [LOG15, LIF24].

`rollup-node explain CODE` prints an entry with its meaning and remedy, docs/codes.md lists all."""

import re
from enum import Enum

_ENTRY = re.compile(r"(?:\[(finding|event)\] )?(.*) DO: (.*)")


class Code(Enum):
    """The table: a member is its kind, its meaning, and what the operator can do; its value is its place here.

    A `[finding]` is what the checks before a start alone find, an `[event]` what happens at one moment; all others are
    conditions that last. Messages carry members."""

    def __new__(cls, entry: str) -> "Code":
        code = object.__new__(cls)
        code._value_ = len(cls.__members__)
        parts = _ENTRY.fullmatch(" ".join(entry.split()))
        assert parts is not None
        code.kind, code.meaning, code.remedy = parts.groups()
        return code

    kind: str | None
    meaning: str
    """What the condition is."""
    remedy: str
    """What the operator can do."""

    @property
    def text(self) -> str:
        """The code as it is written, such as BLOB-EXPIRED."""
        return self.name.replace("_", "-")

    @property
    def is_finding(self) -> bool:
        """Whether the checks before a start alone have this code, and no condition of a running node."""
        return self.kind == "finding"

    @property
    def is_event(self) -> bool:
        """Whether it names what happens at one moment, and no condition that lasts."""
        return self.kind == "event"

    BLOB_EXPIRED = """The blobs are older than the 18 days for which beacon nodes must keep them, and no source has
    them.
    DO: add an archive of blobs with --l1.beacon-fallbacks, or start from an engine snapshot younger than 18 days"""
    BLOB_CUSTODY = """A beacon node keeps too few data columns (PeerDAS) to reconstruct the blobs.
    DO: run it with --semi-supernode or --supernode (Lighthouse, Prysm; Lodestar has only --supernode) or
    --p2p-subscribe-all-custody-subnets-enabled (Teku), or add another source with --l1.beacon-fallbacks"""
    BLOB_FILTER = """A source returns blobs, but not the requested ones: a proxy in between may have dropped or changed
    the query.
    DO: make the proxy pass query strings on, query the beacon node directly, or set --l1.beacon.fetch-all-sidecars"""
    BLOB_WRONG = """The blobs from a source do not have the versioned hashes of the L1 transactions.
    DO: use another beacon node; this one, or something in front of it, changes the data"""
    BLOB_SLOT = """The beacon node has no block in the slot of an L1 block: it is on another chain, has not reached the
    slot, or started after it.
    DO: check that --l1 and --l1.beacon are on the same chain, and that the beacon node is synced and backfilled"""
    BLOB_NOT_FOUND = """Every source says that it does not have the blobs, although they are recent enough to be kept.
    DO: check that the beacon node is synced and was up when the blobs were published, or add a source with
    --l1.beacon-fallbacks"""
    BLOB_SHAPE = """The response is not what this route of the Beacon API returns.
    DO: check that --l1.beacon is the URL of a beacon node; the execution client's URL goes into --l1"""
    BLOB_UNREACHABLE = """No source of blobs can be reached, or each refuses the request.
    DO: check that the beacon node is up, and check its URL, key and quota"""
    BLOB_NO_SOURCE = """A batch is in blobs, and no endpoint is configured to fetch them from.
    DO: set --l1.beacon"""
    NO_BATCHES = """Derivation has accepted no batch for a tenth of the sequencing window. When the window ends, empty
    blocks replace the unsafe ones.
    DO: check that the chain's batcher runs and has funds; if others sent to the inbox, check that the batcher address
    in --rollup.config or of --network is the chain's; if batches were dropped, see rollup-node explain --rpc"""
    L1_ENDPOINT = """An L1 endpoint throttles, fails, is behind, or contradicts the others. The node sets it aside, and
    uses it again once a probe succeeds.
    DO: see the reason in the line, and check its quota (--l1.rpc-rate-limit), its chain, and that it is up and
    synced"""
    L1_DISAGREE = """The L1 endpoints have different blocks at the same height, and no majority decides which is right.
    The node uses the first endpoint in --l1.
    DO: compare them with an endpoint of another provider, and remove the wrong one from --l1; with three endpoints, a
    majority decides"""
    RETRYING = """A step of a process fails for a reason that has no code of its own. The process retries it until it
    succeeds.
    DO: see the reason in the line; if it names an endpoint, check that the endpoint is up and is the right one"""
    L1_THROTTLED = """The L1 endpoint refuses requests because there are too many of them (HTTP status 429). The node
    leaves it alone for as long as its Retry-After says.
    DO: set --l1.rpc-rate-limit and --l1.max-concurrency to what the provider allows, add endpoints to --l1, or choose a
    plan with more requests"""
    L1_BLOCK = """The node cannot read an L1 block that derivation or the engine waits for: the endpoint lacks the block
    or its receipts, or returns data that does not match the block's hash.
    DO: check that the endpoint in the line is synced and keeps full history, and set several endpoints in --l1"""
    L1_STALE = """The L1 head has not changed for minutes: the endpoint does not follow its chain, or the chain has
    stopped.
    DO: compare the endpoint's latest block with another endpoint's; check that its beacon node runs; set several
    endpoints in --l1"""
    L1_CONTRADICTS = """L1 data is contradictory: a finalized block is above the head, not on the chain, or below an
    earlier finalized block, or a block does not link to the known ones. The node keeps the known finalized block.
    DO: check whether a load balancer in --l1 mixes nodes of different chains or states, and use a consistent
    endpoint"""
    L1_UNPROVEN = """With --l1.checkpoint: L1 heads are not proven, or blocks do not link to them. A Beacon API
    withholds its proofs or lies, an L1 endpoint has another chain, or a catch-up has not reached the proven blocks yet.
    The node finalizes nothing that is not proven.
    DO: see the reason in the line: check the endpoint it names and this machine's clock, or add others to --l1 or
    --l1.checkpoint.beacon; a catch-up ends by itself"""
    FINALITY_STALE = """L1's finalized block has not changed for an hour, although its head has; with --l1.checkpoint,
    no newer one has been proven for four epochs. L2 does not finalize either.
    DO: compare the endpoint's finalized block with another endpoint's: either L1 does not finalize, or the endpoint's
    beacon node does not follow it"""
    ENGINE_ANSWER = """The execution engine responds, but does not do what the node requests: it is syncing, busy, or
    returns an error.
    DO: see the engine's response in the line and its log; check that it is synced, and check its disk"""
    ENGINE_CONTRADICTS = """The execution engine sealed a block that is not the one that it was asked to build. The node
    does not insert the block, and has it built again.
    DO: see the difference in the line: check that --l2 is one engine and no load balancer over several, and compare its
    forks and release with those of other nodes"""
    BUILD_LOST = """The execution engine begins to build a derived block, and does not return it. The node finds nothing
    wrong with its transactions, and has it built again.
    DO: see the engine's response in the line; op-reth has the cause in its log, in the line payload_builder: failed to
    resolve pending payload; check its disk and memory, and try another release if it never builds the block"""
    ENGINE_LOST_BLOCKS = """[event] The execution engine restarted with a head below the finalized block: its database
    was replaced, wiped or restored from a backup. The node derives the missing blocks again.
    DO: check the engine's data directory and its disk; an engine with an empty database syncs faster from a snapshot or
    with --syncmode=execution-layer"""
    EL_SYNC_STALLED = """The execution engine gets no blocks from its own peers: in EL sync none for five minutes,
    otherwise not the one above a gap of unsafe blocks or the one that a follow source names. Other work goes on.
    DO: check that the engine has peers; for EL sync, start it from a snapshot, or the node with
    --syncmode=consensus-layer; for a gap, see --syncmode.req-resp; compare a follow source with another node"""
    FORK_MISMATCH = """The execution engine and this node have different forks at the time of a block: the engine
    refuses attributes because of a field that a fork adds. The node exits with code 77. Before a fork: the engine's
    release or its configuration lacks it, and the line says how many days are left.
    DO: compare the fork's time in --rollup.config or --network with the engine's genesis, upgrade the older program, or
    set the time with --override.FORK; a service manager must not restart the node after exit code 77"""
    BUNDLE_UNCONFIRMED = """The upgrade transactions that this version has for a fork of the chain are not known to be
    those of op-node's release for it. With others the block at the fork gets a wrong hash, and the node leaves the
    chain.
    DO: install a rollup-node whose bundle is confirmed, or take op-core/nuts/bundles/lagoon_nut_bundle.json from the
    tag of the op-node release that the chain runs, compare its SHA-256 with op-core/nuts/fork_lock.toml there, and give
    it with --rollup.lagoon-bundle=FILE (rollup-node bundle-check FILE)"""
    BUNDLE_DIFFERS = """The block of the sequencer at the activation of a fork has other upgrade transactions than this
    node's bundle. Derivation waits before the block; the execution engine keeps it.
    DO: compare the SHA-256 of the file that was written to --rollup.bundle-dir with op-core/nuts/fork_lock.toml of the
    op-node release that the chain runs, and start with --rollup.lagoon-bundle=FILE; or with --interop.dependency-set if
    the line says that the sets differ"""
    FORK_SCHEDULE = """[finding] A fork time, keep_karst_upgrade_gas or the dependency set in use is not that of the
    network with this chain id and genesis block: from the first fork that differs, this node leaves the chain.
    DO: use the option in the line, or a newer rollup.json; if the network has changed its schedule since this
    rollup-node was made, nothing"""
    RESET_LOOP = """Derivation has been reset three times or more for the same reason, and starts over each time.
    DO: see the reason in the line: blobs that no source has (a code that begins with BLOB-), an L1 endpoint that is
    behind or on another chain (L1-CHAIN, L1-CONTRADICTS), an engine that lost blocks, or wrong forks (FORK-MISMATCH)"""
    SYNC_SLOW = """The node is behind, and its safe head moves more slowly than the chain grows: at this speed the sync
    never ends.
    DO: see limited_by in the line for the slow part: for l1 or blobs, use a faster or nearer endpoint or a higher
    --l1.max-concurrency; for compute, more --workers; for engine, a faster disk for the execution engine; or sync with
    --syncmode=execution-layer"""
    ALTDA_MISSING = """The DA server says that it does not have an input that derivation waits for.
    DO: check that --altda.da-server is the chain's; if no server has the input, someone must challenge the commitment
    on L1 before its window ends"""
    ALTDA_UNREACHABLE = """The DA server does not respond, or returns data that is not the input of the commitment.
    DO: check that the server of --altda.da-server is up and is the chain's, and check its URL"""
    CONDUCTOR_UNREACHABLE = """The conductor does not respond. Without it this sequencer builds no blocks.
    DO: check that the conductor is up, and check --conductor.rpc; admin_overrideLeader sequences without it"""
    SEQUENCER_WAITS = """The sequencer cannot build a block now.
    DO: see the reason in the line: if an L1 origin is missing, check the L1 endpoint and --sequencer.l1-confs;
    otherwise see the code of the conductor or the engine that it waits for"""
    SAFEDB = """The node cannot write or read the safe head database.
    DO: check the disk, and the permissions of --safedb.path; the node continues when it can write again"""
    INTEROP_WAITS = """A chain of the dependency set holds the others: it does not have its safe block of the time that
    is to be verified next, or has not carried out what was decided. Until it has, no safe head of any chain moves.
    DO: see the chain and the reason in the line, and the codes of that chain: its engine, its batches, L1"""
    INTEROP_BACKFILL = """Logs of the blocks before the first verified one are read from the execution engines. Until
    that is done no block is verified.
    DO: wait; the line has the progress and the time left"""
    INTEROP_HISTORY = """The safe head database of a chain does not say with which L1 block a block became safe: the
    chain was synced past that block, or the database was lost. No later block is verified.
    DO: stop the node, remove the interop database, and start again: verification begins with the blocks that become
    safe then"""
    INTEROP_DIVERGED = """A chain has another block than the one that was verified, although L1 is the same. Nothing is
    verified, and no block is denied, until it has the verified block again.
    DO: compare the block in the line with another node's: if the engine's is wrong (restored from another chain's
    backup), resync the engine from genesis or a snapshot; if it is right, stop the node, remove the interop database,
    and start again"""
    INTEROP_LOGS = """A block executes a message of a block whose logs are not in the interop database, so that it is
    neither valid nor invalid. No later block is verified.
    DO: stop the node, remove the interop database, and start again with a backfill depth of the whole message expiry
    window, and with execution engines that have the receipts of that time"""
    INTEROP_L1_FINAL = """L1 has left a block that it had finalized, and verified blocks depend on it. The node does not
    go back below L1's finality.
    DO: compare the L1 endpoints with others; if L1 really has changed (a test network that was reset), stop the node,
    remove the interop database and the engines' data, and start again"""
    BEHIND = """Derivation is further behind L1 than --rpc.ready-l1-lag allows, so the node is not ready.
    DO: wait if the node is syncing (the line `syncing` has the speed); otherwise see the other codes in the log"""
    HEAD_OLD = """An L2 head is older than --rpc.ready-unsafe-age or --rpc.ready-safe-age allows, so the node is not
    ready.
    DO: see the other codes in the log; the unsafe head needs the sequencer and peers (rollup-node p2p doctor), the safe
    head needs batches and L1"""
    PROCESS_SILENT = """A process of the node has sent no status for seconds: it is starting, overloaded or stopped.
    DO: see its last log lines, and check that the machine has CPU time and memory left"""
    MEMORY = """The machine or the container has little memory left; the system may kill a process.
    DO: add memory, lower --l1.cache-size and --workers, or move the execution engine to another machine"""
    LOG_DROPPED = """The node dropped log lines because the reader of the log is slower than the node writes it.
    DO: read the log faster, or set a lower --log.level"""
    PEER_STREAMS = """Peers opened more streams than their share, and the node dropped these streams.
    DO: nothing, unless the peers are your own: the limit protects the node"""
    BLOCK_SIGNER = """The unsafe block signer on L1 is missing, or is not the key of this sequencer: gossiped blocks are
    refused.
    DO: set --p2p.sequencer.key or --signer.endpoint to the key of the address in the line, or change the signer in the
    chain's system config"""
    P2P_NAT = """No gateway maps the node's ports (--p2p.nat).
    DO: forward the ports of --p2p.listen.tcp and --p2p.listen.udp on the router, and set --p2p.advertise.ip"""
    BOOTNODE = """The host name of a bootnode does not resolve, or its record has no reachable address.
    DO: check --p2p.bootnodes and the name server of this machine"""
    RUNTIME_CONFIG = """The node cannot read the unsafe block signer and the protocol versions from L1. The last values
    stay in force.
    DO: see the L1 endpoint's response in the line; the endpoint needs eth_getStorageAt, and eth_getProof unless it is
    trusted (--l1.trustrpc)"""
    NETWORK_LEFT = """The network follows forks of its own from a certain block on. This node derives it up to the block
    before, and then exits with code 76.
    DO: run the network's own node for later blocks (Base, whose blocks since Denim come every 200 ms: base-consensus
    with base-reth-node); rollup-node networks lists each network's last block; a service manager must not restart the
    node after exit code 76"""
    OPTIONS = """[finding] An option is missing or wrong, or contradicts another one.
    DO: run rollup-node config show: it prints each option with its origin"""
    RELOAD = """[event] A running node refused new options, or does not take some of them over before a restart.
    DO: see the reason in the line; rollup-node check with the same options finds what is wrong with them; then reload
    again, or restart the node"""
    TLS_PORT = """One side of the connection uses TLS and the other does not.
    DO: use http:// for a port without TLS, https:// for a port with TLS"""
    TLS_CERTIFICATE = """The node does not accept the certificate of an endpoint.
    DO: install the certificate of its authority on this machine, renew an expired certificate, or use the host name in
    the certificate"""
    ENDPOINTS_SWAPPED = """[finding] The URLs of execution node and beacon node are swapped: --l1 is a beacon node, or
    --l1.beacon is an execution node.
    DO: check whether --l1 and --l1.beacon are swapped: --l1 is the JSON-RPC of the execution node (usually port 8545),
    --l1.beacon the API of the beacon node (usually port 5052 or 3500)"""
    CLOCK = """[finding] The clocks of this machine and of an endpoint differ.
    DO: synchronize the clocks with NTP; timedatectl shows whether this machine does"""
    L1_UNREACHABLE = """An L1 endpoint does not respond, or its response is not JSON-RPC.
    DO: check that the endpoint of --l1 is up, and check its URL, key and quota"""
    L1_CHAIN = """The L1 endpoint is not on the L1 chain of the rollup.
    DO: check --l1, and --network or --rollup.config"""
    L1_HEAD = """[finding] The latest block of the L1 endpoint is old: the endpoint is syncing, or its chain has
    stopped.
    DO: wait until it is synced, or use another endpoint"""
    ROLLUP_CONFIG = """[finding] The blocks of the engine, or L1's SystemConfig contract and last blocks, are not those
    that the rollup config describes. With another block_time, genesis time or inbox another chain is derived.
    DO: compare block_time, genesis, batch_inbox_address and l1_system_config_address in --rollup.config with the
    chain's, or give --network"""
    L1_METHODS = """[finding] The L1 endpoint lacks a method: without eth_getBlockReceipts the node fetches receipts one
    by one, without eth_getProof it does not prove the block signer.
    DO: enable the method, choose another method with --l1.rpckind, or use another endpoint"""
    ENGINE_UNREACHABLE = """The execution engine, or the L2 source of a command, does not respond, or its response is
    not JSON-RPC.
    DO: check that it is up, and check its URL in --l2: a node needs the engine's authenticated port (usually 8551), a
    command that reads L2 blocks also works with the public port"""
    ENGINE_SLOW = """The execution engine is up, and does not answer a call in time (--l2.engine-rpc-timeout).
    DO: wait if it was started a moment ago: op-reth fills a cache before its first answer (its option
    engine.cross-block-cache-size); otherwise check its CPU, memory and disk, and what else runs on its machine"""
    ENGINE_AUTH = """The execution engine rejects our JWT because its secret is different.
    DO: use the engine's secret file in --l2.jwt-secret"""
    ENGINE_VHOST = """The execution engine does not accept the host name in --l2.
    DO: add the host name to the engine's --authrpc.vhosts, or use the address 127.0.0.1"""
    ENGINE_CLOCK = """The execution engine rejects our JWT because of its time: the clocks differ by more than the 60
    seconds that the engine allows.
    DO: synchronize the clocks of both machines with NTP; the secret is not the reason"""
    ENGINE_PUBLIC_PORT = """The port in --l2 is the public RPC port of the engine, which has no Engine API.
    DO: set --l2 to the authenticated port, usually 8551"""
    ENGINE_CHAIN = """[finding] The execution engine is not on the chain of the rollup.
    DO: check --l2, and --network or --rollup.config"""
    ENGINE_KIND = """[finding] The execution engine says that it is another one than --l2.enginekind.
    DO: remove --l2.enginekind, then the engine's own name decides, or set it to the engine's kind"""
    ENGINE_CAPABILITIES = """[finding] The engine does not list a method of the Engine API that a fork of the chain
    needs.
    DO: upgrade the execution engine to a release that supports the fork"""
    ENGINE_FORKS = """[finding] A block of the engine has the fields of forks other than the configured ones.
    DO: compare the fork times of --network, --rollup.config and --override.* with those of the engine's genesis"""
    ENGINE_METHODS = """[finding] The engine lacks eth_getProof, which optimism_outputAtBlock needs for blocks before
    Isthmus.
    DO: enable the eth namespace on the authenticated port of the engine"""
    BEACON_UNREACHABLE = """The beacon node does not respond, or its response is not that of the Beacon API.
    DO: check --l1.beacon, or set --l1.beacon.ignore to start anyway"""
    BEACON_CHAIN = """The beacon node is not on the chain of L1.
    DO: set --l1.beacon to a beacon node of the chain of --l1"""
    SIGNER_UNREACHABLE = """The remote signer does not respond, or its response is not that of a signer.
    DO: check --signer.endpoint, and that the signer is up"""
    FOLLOW_UNREACHABLE = """The node in --l2.follow.source does not respond. Without it this node follows gossip.
    DO: check --l2.follow.source, and that the node there is up"""
    LOCAL_SAFE = """[event] From Lagoon on, the chain executes messages of other chains, which this node does not
    verify: what it calls safe is safe on this chain alone (local safe).
    DO: set --l2.follow.source to a supernode, or use another node's safe head where verified messages matter"""
    FOLLOW_CHAIN = """The node in --l2.follow.source is on another chain.
    DO: check --l2.follow.source"""
    JWT_FILE = """[finding] The file of a JWT secret is missing or unusable; a start writes a new secret to a missing
    file.
    DO: set --l2.jwt-secret to the file that the execution engine uses"""
    PORT_TAKEN = """[finding] A port on which the node listens is in use, or two options name it.
    DO: stop the program that uses it, or choose another port"""
    PORT_ADDRESS = """[finding] The node cannot listen on an address: this machine does not have the address, or the
    port needs privileges.
    DO: use an address of this machine, or 0.0.0.0 for all, and a port above 1023"""
    DIRECTORY = """[finding] The node cannot write to a directory in which it stores files.
    DO: make it writable for the user of the node, or choose another path"""
    DISK = """[finding] A disk on which the node stores files is nearly full.
    DO: free some space, or choose a path on another disk"""
    PEERS_NONE = """No peer is connected, or the options name neither bootnodes nor static peers.
    DO: set --p2p.bootnodes or --p2p.static; rollup-node p2p doctor says why peers do not connect"""
    PEERS_ADDRESS = """[finding] The address that the node advertises to peers is not public, so others cannot connect.
    DO: set --p2p.advertise.ip to the public address, or set --p2p.nat behind a home router"""
    PEER_UNREACHABLE = """A static peer does not accept a connection.
    DO: check that it is up, and check its address in --p2p.static"""
    NO_RESULT = """[finding] A check did not end in time, or failed itself.
    DO: run the check again; if it fails the same way, report it as a bug with this line"""
    L1_REORG = """[event] The L1 chain was reorganized: a new branch replaced blocks of the old one.
    DO: nothing; if deep reorgs repeat, check whether a load balancer in --l1 mixes nodes of different states"""
    ARCHIVE_DAMAGED = """[event] An entry in the archive of L1 data of `rollup-node history` is unreadable, or is not
    what its name says. The run fetches it again, and replaces it if it can write to the folder.
    DO: nothing; if it repeats, check the disk, and who else writes to the folder"""
    ARCHIVE_UNWRITABLE = """The run cannot write to the archive of L1 data of `rollup-node history`, and continues
    without it.
    DO: check that the disk is not full and that this user may write there"""
    L1_SUBSCRIPTION = """[event] The L1 endpoint's WebSocket does not notify the node of new heads. The node polls the
    head instead.
    DO: nothing, or use an endpoint that supports eth_subscribe"""
    L1_NOT_POLLED = """[event] The node does not poll L1 because an interval is 0: it does not know the L1 head, or does
    not finalize L2 blocks.
    DO: set --l1.http-poll-interval and --l1.epoch-poll-interval"""
    RESET = """[event] Derivation starts again from an earlier L1 block because the chain below it changed.
    DO: nothing; if resets repeat, RESET-LOOP says so"""
    INPUT_DROPPED = """[event] Derivation dropped data from the batch inbox because of a protocol rule, which the line
    names.
    DO: see rollup-node explain --rpc for the last drops with their rules, and docs/drop-reasons.md for all reasons; if
    the data is from the chain's batcher, check the batcher"""
    BUNDLE_CHOSEN = """[event] With --rollup.lagoon-bundle=auto the node has found the chain's upgrade bundle among
    those that it carries: the sequencer's block and a later batch on L1 confirm it. The node starts again with it.
    DO: nothing; rollup-node bundle-check prints the bundle in the file of the line"""
    BLOCK_REPLACED = """[event] A derived block differs from the unsafe block, or the engine found its transactions
    invalid. The derived chain counts.
    DO: nothing; on a sequencer, look for the block of the line in its log and in the batcher's"""
    BLOCK_DENIED = """[event] A block executes a message of another chain that is not there, has expired or is otherwise
    invalid. The chain goes back to the block before, and has a block of its deposits instead.
    DO: nothing; on a sequencer, filter such messages in the pool of its execution engine, or each block with the
    transaction is denied"""
    TRANSACTION_LEFT_OUT = """[event] The execution engine left out a transaction of a derived block that it cannot
    execute (op-reth), instead of refusing the block (op-geth). The node replaced the block by one of its deposits, as
    the fault proofs do, or dropped it before Holocene.
    DO: look for the transaction of the line in the batcher's log; op-node with op-reth takes the block without it, and
    is on another chain from there on"""
    TRANSACTION_INVALID = """[event] A derived block has a transaction that no execution engine can execute. The node
    replaced the block by one of its deposits, as the fault proofs do, or dropped it before Holocene.
    DO: look for the transaction of the line in the batcher's log"""
    UNSAFE_BLOCK = """[event] The engine found an unsafe block from the sequencer's gossip invalid, and the node dropped
    it.
    DO: compare the versions and forks of engine and node with the sequencer's"""
    ALTDA_LOST = """[event] The input of an Alt-DA commitment is lost, and nobody can challenge it any more: the node
    cannot derive the next block. It exits with code 70.
    DO: find a DA server that has the input, and set --altda.da-server to it"""
    CRITICAL = """[event] A rule that always holds is broken. The node exits with code 70 instead of continuing with a
    wrong state.
    DO: keep the log; unless the line names an option or an endpoint, report it as a bug with the archive of
    rollup-node bundle"""
    PROTOCOL_VERSION = """[event] L1 requires or recommends a newer protocol version than this node supports. With
    --rollup.halt the node exits with code 75.
    DO: upgrade rollup-node"""
    BUG = """[event] An unexpected error; the line has the traceback. The supervisor restarts the process.
    DO: report it with the archive of rollup-node bundle; if the node continues, nothing else is needed"""
    PROCESS_DIED = """[event] A process of the node died, hung, or could not start. The supervisor restarts it.
    DO: nothing if it happens once; otherwise see its last log lines, and check the memory and CPU of the machine"""
    HOST_LIMIT = """[event] The system refuses processes, threads, open files or memory to the node: a limit of its
    user, of its container or of the machine. A running node tries again, with pauses up to 30 s.
    DO: raise the limit: TasksMax= and LimitNOFILE= of systemd, --pids-limit, --ulimit and --memory of docker,
    podPidsLimit of Kubernetes, or ulimit -u and -n; or lower --workers"""
    CRASH_LOOP = """[event] A process died so often that the node gives up: it exits with code 3, or sets the chain of
    the process aside where it has several.
    DO: see the last log lines of the process for the cause"""
    CHAIN_ASIDE = """A chain of several does not run: a process of it keeps dying, or ended as the line says. The other
    chains go on, and its processes are started again after a pause.
    DO: see the reason in the line, and the last log lines of the chain's processes; restart the node to try at once"""
    SLOW = """[event] A process takes long to start or to stop.
    DO: check that the machine has CPU time left"""
    MESSAGES_REFUSED = """[event] A process refused a message from another process that does not fit the protocol
    between them.
    DO: report it as a bug with this line"""
    WORKER_FAILED = """[event] A worker process could not do a task. The node does the task elsewhere, or again.
    DO: nothing; if it repeats, see the log lines of the workers, and check the memory of the machine"""
    FILE = """[event] The node cannot read, write or remove one of its files or databases. The line says what it does
    instead.
    DO: check the permissions and the disk of the path in the line"""
    SEQUENCER_STATE = """[event] The node cannot read from its file, or store in it, whether the sequencer is started.
    DO: check the disk, and the permissions of the file in the line; start or stop the sequencer again with
    admin_startSequencer or admin_stopSequencer"""
    SEQUENCER_ADMIN = """[event] An administrator stopped the sequencer without its last block, or overrode the leader.
    DO: nothing if this was intended; otherwise check who can call the admin methods (--rpc.enable-admin)"""
    BLOCK_NOT_SIGNED = """[event] A block of this sequencer was not signed: the signer failed, or the block may be the
    second at its height.
    DO: check the signer named in the line, and that only one sequencer runs with this key"""
    BLOCKS_LOST = """[event] The execution engine came back without the latest blocks. The node puts them back before it
    sequences.
    DO: see in its log why the engine ended (op-reth: --engine.persistence-threshold 0), and the reason in the line"""
    FOLLOW_SOURCE = """[event] The followed node went back, moved to another branch, or names a block that this node
    cannot read.
    DO: check that --l2.follow.source is synced, and compare its blocks with another node's"""
    INTEROP_INVALID = """[event] A block executes a message between chains that is not valid. The block is denied, and
    its chain derives a block of the deposits alone in its place.
    DO: nothing; on a chain of your own, see why the sequencer included the message in the line"""
    INTEROP_REWIND = """[event] L1 has left a block that verified blocks depend on. They are void, and the chains derive
    again.
    DO: nothing"""
    INTEROP_STORE = """The interop database cannot be opened, read or written, it is damaged, or an older copy of it was
    put back. No block is verified meanwhile.
    DO: check the disk and the permissions of the file's folder; if the line says that the file is damaged or an older
    copy, stop the node, remove the file, and start again: the logs are read from the engines again"""
    SAFEDB_GAP = """[event] Blocks became safe that the safe head database lacks: it was unavailable, or the node ran
    without it.
    DO: nothing, unless proposers or challengers need those blocks; then derive them again with an empty database"""
    TRACES = """[event] The collector of --tracing.otlp-endpoint does not take spans, which are dropped; nothing else
    depends on them.
    DO: check the address and whether the collector has an OTLP receiver for HTTP there, usually on port 4318"""
    RPC_CLIENTS = """[event] The node closed connections of RPC clients because they are too many, too slow or
    malformed.
    DO: check the client named in the line, and put a proxy with limits in front of a public RPC"""
