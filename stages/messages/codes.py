"""Codes of warnings and errors, by which logs, health, `/readyz` and `rollup-node check` name them [LOG15, LIF24].

`rollup-node explain CODE` prints an entry with its meaning and remedy, docs/codes.md lists all."""

from rollup_node.stages.messages import codes_of_engine
from rollup_node.stages.messages.codes_of_engine import EVENT, FINDING, CodeEntry


class Code(CodeEntry):
    """The table."""

    BLOB_EXPIRED = (
        "The blobs are older than the 18 days for which beacon nodes must keep them, and no source has them.",
        "add an archive of blobs with --l1.beacon-fallbacks, or start from an engine snapshot younger than 18 days",
    )
    BLOB_CUSTODY = (
        "A beacon node keeps too few data columns (PeerDAS) to reconstruct the blobs.",
        "run it with --semi-supernode or --supernode (Lighthouse, Prysm; Lodestar has only --supernode) or"
        " --p2p-subscribe-all-custody-subnets-enabled (Teku), or add another source with --l1.beacon-fallbacks",
    )
    BLOB_FILTER = (
        "A source returns blobs, but not the requested ones: a proxy in between may have dropped or changed the query.",
        "make the proxy pass query strings on, query the beacon node directly, or set --l1.beacon.fetch-all-sidecars",
    )
    BLOB_WRONG = (
        "The blobs from a source do not have the versioned hashes of the L1 transactions.",
        "use another beacon node; this one, or something in front of it, changes the data",
    )
    BLOB_SLOT = (
        "The beacon node has no block in the slot of an L1 block: it is on another chain, has not reached the slot, or"
        " started after it.",
        "check that --l1 and --l1.beacon are on the same chain, and that the beacon node is synced and backfilled",
    )
    BLOB_NOT_FOUND = (
        "Every source says that it does not have the blobs, although they are recent enough to be kept.",
        "check that the beacon node is synced and was up when the blobs were published, or add a source with"
        " --l1.beacon-fallbacks",
    )
    BLOB_SHAPE = (
        "The response is not what this route of the Beacon API returns.",
        "check that --l1.beacon is the URL of a beacon node; the execution client's URL goes into --l1",
    )
    BLOB_UNREACHABLE = (
        "No source of blobs can be reached, or each refuses the request.",
        "check that the beacon node is up, and check its URL, key and quota",
    )
    BLOB_NO_SOURCE = ("A batch is in blobs, and no endpoint is configured to fetch them from.", "set --l1.beacon")
    NO_BATCHES = (
        "Derivation has accepted no batch for a tenth of the sequencing window. When the window ends, empty blocks"
        " replace the unsafe ones.",
        "check that the chain's batcher runs and has funds; if others sent to the inbox, check that the batcher"
        " address in --rollup.config or of --network is the chain's; if batches were dropped, see rollup-node explain"
        " --rpc",
    )
    L1_ENDPOINT = (
        "An L1 endpoint throttles, fails, is behind, or contradicts the others. The node sets it aside, and uses it"
        " again once a probe succeeds.",
        "see the reason in the line, and check its quota (--l1.rpc-rate-limit), its chain, and that it is up and"
        " synced",
    )
    L1_DISAGREE = (
        "The L1 endpoints have different blocks at the same height, and no majority decides which is right. The node"
        " uses the first endpoint in --l1.",
        "compare them with an endpoint of another provider, and remove the wrong one from --l1; with three endpoints,"
        " a majority decides",
    )
    RETRYING = (
        "A step of a process fails for a reason that has no code of its own. The process retries it until it succeeds.",
        "see the reason in the line; if it names an endpoint, check that the endpoint is up and is the right one",
    )
    L1_THROTTLED = (
        "The L1 endpoint refuses requests because there are too many of them (HTTP status 429). The node leaves it"
        " alone for as long as its Retry-After says.",
        "set --l1.rpc-rate-limit and --l1.max-concurrency to what the provider allows, add endpoints to --l1, or"
        " choose a plan with more requests",
    )
    L1_BLOCK = (
        "The node cannot read an L1 block that derivation or the engine waits for: the endpoint lacks the block or its"
        " receipts, or returns data that does not match the block's hash.",
        "check that the endpoint in the line is synced and keeps full history, and set several endpoints in --l1",
    )
    L1_STALE = (
        "The L1 head has not changed for minutes: the endpoint does not follow its chain, or the chain has stopped.",
        "compare the endpoint's latest block with another endpoint's; check that its beacon node runs; set several"
        " endpoints in --l1",
    )
    L1_CONTRADICTS = (
        "L1 data is contradictory: a finalized block is above the head, not on the chain, or below an earlier"
        " finalized block, or a block does not link to the known ones. The node keeps the known finalized block.",
        "check whether a load balancer in --l1 mixes nodes of different chains or states, and use a consistent"
        " endpoint",
    )
    FINALITY_STALE = (
        "L1's finalized block has not changed for an hour, although its head has. L2 does not finalize either.",
        "compare the endpoint's finalized block with another endpoint's: either L1 does not finalize, or the"
        " endpoint's beacon node does not follow it",
    )

    ENGINE_ANSWER = codes_of_engine.ENGINE_ANSWER
    ENGINE_CONTRADICTS = codes_of_engine.ENGINE_CONTRADICTS
    BUILD_LOST = codes_of_engine.BUILD_LOST
    ENGINE_LOST_BLOCKS = codes_of_engine.ENGINE_LOST_BLOCKS
    EL_SYNC_STALLED = codes_of_engine.EL_SYNC_STALLED
    FORK_MISMATCH = codes_of_engine.FORK_MISMATCH
    BUNDLE_UNCONFIRMED = (
        "The upgrade transactions that this version has for a fork of the chain are not known to be those of op-node's"
        " release for it. With others the block at the fork gets a wrong hash, and the node leaves the chain.",
        "install a rollup-node whose bundle is confirmed, or take op-core/nuts/bundles/lagoon_nut_bundle.json from the"
        " tag of the op-node release that the chain runs, compare its SHA-256 with op-core/nuts/fork_lock.toml there,"
        " and give it with --rollup.lagoon-bundle=FILE (rollup-node bundle-check FILE)",
    )
    BUNDLE_DIFFERS = (
        "The block of the sequencer at the activation of a fork has other upgrade transactions than this node's bundle."
        " Derivation waits before the block; the execution engine keeps it.",
        "compare the SHA-256 of the file that was written to --rollup.bundle-dir with op-core/nuts/fork_lock.toml of"
        " the op-node release that the chain runs, and start with --rollup.lagoon-bundle=FILE; or with"
        " --interop.dependency-set if the line says that the sets differ",
    )
    FORK_SCHEDULE = (
        "A fork time, keep_karst_upgrade_gas or the dependency set in use is not that of the network with this chain id"
        " and genesis block: from the first fork that differs, this node leaves the chain.",
        "use the option in the line, or a newer rollup.json; if the network has changed its schedule since this"
        " rollup-node was made, nothing",
        FINDING,
    )
    RESET_LOOP = (
        "Derivation has been reset three times or more for the same reason, and starts over each time.",
        "see the reason in the line: blobs that no source has (a code that begins with BLOB-), an L1 endpoint that is"
        " behind or on another chain (L1-CHAIN, L1-CONTRADICTS), an engine that lost blocks, or wrong forks"
        " (FORK-MISMATCH)",
    )
    SYNC_SLOW = (
        "The node is behind, and its safe head moves more slowly than the chain grows: at this speed the sync never"
        " ends.",
        "see limited_by in the line for the slow part: for l1 or blobs, use a faster or nearer endpoint or a higher"
        " --l1.max-concurrency; for compute, more --workers; for engine, a faster disk for the execution engine; or"
        " sync with --syncmode=execution-layer",
    )
    ALTDA_MISSING = (
        "The DA server says that it does not have an input that derivation waits for.",
        "check that --altda.da-server is the chain's; if no server has the input, someone must challenge the"
        " commitment on L1 before its window ends",
    )
    ALTDA_UNREACHABLE = (
        "The DA server does not respond, or returns data that is not the input of the commitment.",
        "check that the server of --altda.da-server is up and is the chain's, and check its URL",
    )
    CONDUCTOR_UNREACHABLE = (
        "The conductor does not respond. Without it this sequencer builds no blocks.",
        "check that the conductor is up, and check --conductor.rpc; admin_overrideLeader sequences without it",
    )
    SEQUENCER_WAITS = (
        "The sequencer cannot build a block now.",
        "see the reason in the line: if an L1 origin is missing, check the L1 endpoint and --sequencer.l1-confs;"
        " otherwise see the code of the conductor or the engine that it waits for",
    )
    SAFEDB = (
        "The node cannot write or read the safe head database.",
        "check the disk, and the permissions of --safedb.path; the node continues when it can write again",
    )
    BEHIND = (
        "Derivation is further behind L1 than --rpc.ready-l1-lag allows, so the node is not ready.",
        "wait if the node is syncing (the line `syncing` has the speed); otherwise see the other codes in the log",
    )
    HEAD_OLD = (
        "An L2 head is older than --rpc.ready-unsafe-age or --rpc.ready-safe-age allows, so the node is not ready.",
        "see the other codes in the log; the unsafe head needs the sequencer and peers (rollup-node p2p doctor), the"
        " safe head needs batches and L1",
    )
    PROCESS_SILENT = (
        "A process of the node has sent no status for seconds: it is starting, overloaded or stopped.",
        "see its last log lines, and check that the machine has CPU time and memory left",
    )
    MEMORY = (
        "The machine or the container has little memory left; the system may kill a process.",
        "add memory, lower --l1.cache-size and --workers, or move the execution engine to another machine",
    )
    LOG_DROPPED = (
        "The node dropped log lines because the reader of the log is slower than the node writes it.",
        "read the log faster, or set a lower --log.level",
    )
    PEER_STREAMS = (
        "Peers opened more streams than their share, and the node dropped these streams.",
        "nothing, unless the peers are your own: the limit protects the node",
    )
    BLOCK_SIGNER = (
        "The unsafe block signer on L1 is missing, or is not the key of this sequencer: gossiped blocks are refused.",
        "set --p2p.sequencer.key or --signer.endpoint to the key of the address in the line, or change the signer in"
        " the chain's system config",
    )
    P2P_NAT = (
        "No gateway maps the node's ports (--p2p.nat).",
        "forward the ports of --p2p.listen.tcp and --p2p.listen.udp on the router, and set --p2p.advertise.ip",
    )
    BOOTNODE = (
        "The host name of a bootnode does not resolve, or its record has no reachable address.",
        "check --p2p.bootnodes and the name server of this machine",
    )
    RUNTIME_CONFIG = (
        "The node cannot read the unsafe block signer and the protocol versions from L1. The last values stay in"
        " force.",
        "see the L1 endpoint's response in the line; the endpoint needs eth_getStorageAt, and eth_getProof unless it"
        " is trusted (--l1.trustrpc)",
    )

    NETWORK_LEFT = (
        "The network follows forks of its own from a certain block on. This node derives it up to the block before,"
        " and then exits with code 76.",
        "run the network's own node for later blocks (Base, whose blocks since Denim come every 200 ms: base-consensus"
        " with base-reth-node); rollup-node networks lists each network's last block; a service manager must not"
        " restart the node after exit code 76",
    )
    OPTIONS = (
        "An option is missing or wrong, or contradicts another one.",
        "run rollup-node config show: it prints each option with its origin",
        FINDING,
    )
    TLS_PORT = (
        "One side of the connection uses TLS and the other does not.",
        "use http:// for a port without TLS, https:// for a port with TLS",
    )
    TLS_CERTIFICATE = (
        "The node does not accept the certificate of an endpoint.",
        "install the certificate of its authority on this machine, renew an expired certificate, or use the host name"
        " in the certificate",
    )
    ENDPOINTS_SWAPPED = (
        "The URLs of execution node and beacon node are swapped: --l1 is a beacon node, or --l1.beacon is an execution"
        " node.",
        "check whether --l1 and --l1.beacon are swapped: --l1 is the JSON-RPC of the execution node (usually port"
        " 8545), --l1.beacon the API of the beacon node (usually port 5052 or 3500)",
        FINDING,
    )
    CLOCK = (
        "The clocks of this machine and of an endpoint differ.",
        "synchronize the clocks with NTP; timedatectl shows whether this machine does",
        FINDING,
    )
    L1_UNREACHABLE = (
        "An L1 endpoint does not respond, or its response is not JSON-RPC.",
        "check that the endpoint of --l1 is up, and check its URL, key and quota",
    )
    L1_CHAIN = ("The L1 endpoint is not on the L1 chain of the rollup.", "check --l1, and --network or --rollup.config")
    L1_HEAD = (
        "The latest block of the L1 endpoint is old: the endpoint is syncing, or its chain has stopped.",
        "wait until it is synced, or use another endpoint",
        FINDING,
    )
    ROLLUP_CONFIG = (
        "The blocks of the engine, or L1's SystemConfig contract and last blocks, are not those that the rollup config"
        " describes. With another block_time, genesis time or inbox another chain is derived.",
        "compare block_time, genesis, batch_inbox_address and l1_system_config_address in --rollup.config with the"
        " chain's, or give --network",
        FINDING,
    )
    L1_METHODS = (
        "The L1 endpoint lacks a method: without eth_getBlockReceipts the node fetches receipts one by one, without"
        " eth_getProof it does not prove the block signer.",
        "enable the method, choose another method with --l1.rpckind, or use another endpoint",
        FINDING,
    )
    ENGINE_UNREACHABLE = codes_of_engine.ENGINE_UNREACHABLE
    ENGINE_SLOW = codes_of_engine.ENGINE_SLOW
    ENGINE_AUTH = codes_of_engine.ENGINE_AUTH
    ENGINE_VHOST = codes_of_engine.ENGINE_VHOST
    ENGINE_CLOCK = codes_of_engine.ENGINE_CLOCK
    ENGINE_PUBLIC_PORT = codes_of_engine.ENGINE_PUBLIC_PORT
    ENGINE_CHAIN = codes_of_engine.ENGINE_CHAIN
    ENGINE_KIND = codes_of_engine.ENGINE_KIND
    ENGINE_CAPABILITIES = codes_of_engine.ENGINE_CAPABILITIES
    ENGINE_FORKS = codes_of_engine.ENGINE_FORKS
    ENGINE_METHODS = codes_of_engine.ENGINE_METHODS
    BEACON_UNREACHABLE = (
        "The beacon node does not respond, or its response is not that of the Beacon API.",
        "check --l1.beacon, or set --l1.beacon.ignore to start anyway",
    )
    BEACON_CHAIN = (
        "The beacon node is not on the chain of L1.",
        "set --l1.beacon to a beacon node of the chain of --l1",
    )
    SIGNER_UNREACHABLE = (
        "The remote signer does not respond, or its response is not that of a signer.",
        "check --signer.endpoint, and that the signer is up",
    )
    FOLLOW_UNREACHABLE = (
        "The node in --l2.follow.source does not respond. Without it this node follows gossip.",
        "check --l2.follow.source, and that the node there is up",
    )
    LOCAL_SAFE = (
        "From Lagoon on, the chain executes messages of other chains, which this node does not verify: what it calls"
        " safe is safe on this chain alone (local safe).",
        "set --l2.follow.source to a supernode, or use another node's safe head where verified messages matter",
        EVENT,
    )
    FOLLOW_CHAIN = ("The node in --l2.follow.source is on another chain.", "check --l2.follow.source")
    JWT_FILE = (
        "The file of a JWT secret is missing or unusable; a start writes a new secret to a missing file.",
        "set --l2.jwt-secret to the file that the execution engine uses",
        FINDING,
    )
    PORT_TAKEN = (
        "A port on which the node listens is in use, or two options name it.",
        "stop the program that uses it, or choose another port",
        FINDING,
    )
    PORT_ADDRESS = (
        "The node cannot listen on an address: this machine does not have the address, or the port needs privileges.",
        "use an address of this machine, or 0.0.0.0 for all, and a port above 1023",
        FINDING,
    )
    DIRECTORY = (
        "The node cannot write to a directory in which it stores files.",
        "make it writable for the user of the node, or choose another path",
        FINDING,
    )
    DISK = (
        "A disk on which the node stores files is nearly full.",
        "free some space, or choose a path on another disk",
        FINDING,
    )
    PEERS_NONE = (
        "No peer is connected, or the options name neither bootnodes nor static peers.",
        "set --p2p.bootnodes or --p2p.static; rollup-node p2p doctor says why peers do not connect",
    )
    PEERS_ADDRESS = (
        "The address that the node advertises to peers is not public, so others cannot connect.",
        "set --p2p.advertise.ip to the public address, or set --p2p.nat behind a home router",
        FINDING,
    )
    PEER_UNREACHABLE = (
        "A static peer does not accept a connection.",
        "check that it is up, and check its address in --p2p.static",
    )
    NO_RESULT = (
        "A check did not end in time, or failed itself.",
        "run the check again; if it fails the same way, report it as a bug with this line",
        FINDING,
    )

    L1_REORG = (
        "The L1 chain was reorganized: a new branch replaced blocks of the old one.",
        "nothing; if deep reorgs repeat, check whether a load balancer in --l1 mixes nodes of different states",
        EVENT,
    )
    ARCHIVE_DAMAGED = (
        "An entry in the archive of L1 data of `rollup-node history` is unreadable, or is not what its name says. The"
        " run fetches it again, and replaces it if it can write to the folder.",
        "nothing; if it repeats, check the disk, and who else writes to the folder",
        EVENT,
    )
    ARCHIVE_UNWRITABLE = (
        "The run cannot write to the archive of L1 data of `rollup-node history`, and continues without it.",
        "check that the disk is not full and that this user may write there",
    )
    L1_SUBSCRIPTION = (
        "The L1 endpoint's WebSocket does not notify the node of new heads. The node polls the head instead.",
        "nothing, or use an endpoint that supports eth_subscribe",
        EVENT,
    )
    L1_NOT_POLLED = (
        "The node does not poll L1 because an interval is 0: it does not know the L1 head, or does not finalize L2"
        " blocks.",
        "set --l1.http-poll-interval and --l1.epoch-poll-interval",
        EVENT,
    )
    RESET = (
        "Derivation starts again from an earlier L1 block because the chain below it changed.",
        "nothing; if resets repeat, RESET-LOOP says so",
        EVENT,
    )
    INPUT_DROPPED = (
        "Derivation dropped data from the batch inbox because of a protocol rule, which the line names.",
        "see rollup-node explain --rpc for the last drops with their rules, and docs/drop-reasons.md for all reasons;"
        " if the data is from the chain's batcher, check the batcher",
        EVENT,
    )
    BUNDLE_CHOSEN = (
        "With --rollup.lagoon-bundle=auto the node has found the chain's upgrade bundle among those that it carries:"
        " the sequencer's block and a later batch on L1 confirm it. The node starts again with it.",
        "nothing; rollup-node bundle-check prints the bundle in the file of the line",
        EVENT,
    )
    BLOCK_REPLACED = codes_of_engine.BLOCK_REPLACED
    TRANSACTION_LEFT_OUT = codes_of_engine.TRANSACTION_LEFT_OUT
    TRANSACTION_INVALID = codes_of_engine.TRANSACTION_INVALID
    UNSAFE_BLOCK = codes_of_engine.UNSAFE_BLOCK
    ALTDA_LOST = (
        "The input of an Alt-DA commitment is lost, and nobody can challenge it any more: the node cannot derive the"
        " next block. It exits with code 70.",
        "find a DA server that has the input, and set --altda.da-server to it",
        EVENT,
    )
    CRITICAL = (
        "A rule that always holds is broken. The node exits with code 70 instead of continuing with a wrong state.",
        "keep the log, and report it as a bug unless the line names an option or an endpoint",
        EVENT,
    )
    PROTOCOL_VERSION = (
        "L1 requires or recommends a newer protocol version than this node supports. With --rollup.halt the node exits"
        " with code 75.",
        "upgrade rollup-node",
        EVENT,
    )
    BUG = (
        "An unexpected error; the line has the traceback. The supervisor restarts the process.",
        "report it with the line; if the node continues, nothing else is needed",
        EVENT,
    )
    PROCESS_DIED = (
        "A process of the node died, hung, or could not start. The supervisor restarts it.",
        "nothing if it happens once; otherwise see its last log lines, and check the memory and CPU of the machine",
        EVENT,
    )
    HOST_LIMIT = (
        "The system refuses processes, threads, open files or memory to the node: a limit of its user, of its container"
        " or of the machine. A running node tries again, with pauses up to 30 s.",
        "raise the limit: TasksMax= and LimitNOFILE= of systemd, --pids-limit, --ulimit and --memory of docker,"
        " podPidsLimit of Kubernetes, or ulimit -u and -n; or lower --workers",
        EVENT,
    )
    CRASH_LOOP = (
        "A process died so often that the node gives up: it exits with code 3.",
        "see the last log lines of the process for the cause",
        EVENT,
    )
    SLOW = ("A process takes long to start or to stop.", "check that the machine has CPU time left", EVENT)
    MESSAGES_REFUSED = (
        "A process refused a message from another process that does not fit the protocol between them.",
        "report it as a bug with this line",
        EVENT,
    )
    WORKER_FAILED = (
        "A worker process could not do a task. The node does the task elsewhere, or again.",
        "nothing; if it repeats, see the log lines of the workers, and check the memory of the machine",
        EVENT,
    )
    FILE = (
        "The node cannot read, write or remove one of its files or databases. The line says what it does instead.",
        "check the permissions and the disk of the path in the line",
        EVENT,
    )
    SEQUENCER_STATE = (
        "The node cannot read from its file, or store in it, whether the sequencer is started.",
        "check the disk, and the permissions of the file in the line; start or stop the sequencer again with"
        " admin_startSequencer or admin_stopSequencer",
        EVENT,
    )
    SEQUENCER_ADMIN = (
        "An administrator stopped the sequencer without its last block, or overrode the leader.",
        "nothing if this was intended; otherwise check who can call the admin methods (--rpc.enable-admin)",
        EVENT,
    )
    BLOCK_NOT_SIGNED = (
        "A block of this sequencer was not signed: the signer failed, or the block may be the second at its height.",
        "check the signer named in the line, and that only one sequencer runs with this key",
        EVENT,
    )
    BLOCKS_LOST = (
        "The execution engine came back without the latest blocks. The node puts them back before it sequences.",
        "see in its log why the engine ended (op-reth: --engine.persistence-threshold 0), and the reason in the line",
        EVENT,
    )
    FOLLOW_SOURCE = (
        "The followed node went back, moved to another branch, or names a block that this node cannot read.",
        "check that --l2.follow.source is synced, and compare its blocks with another node's",
        EVENT,
    )
    INTEROP_STORE = (
        "The interop database cannot be opened, read or written, or it is damaged. No block is verified meanwhile.",
        "check the disk and the permissions of the file's folder; if the line says that the file is damaged, stop the"
        " node, remove the file, and start again: the logs are read from the engines again",
    )
    SAFEDB_GAP = (
        "Blocks became safe that the safe head database lacks: it was unavailable, or the node ran without it.",
        "nothing, unless proposers or challengers need those blocks; then derive them again with an empty database",
        EVENT,
    )
    RPC_CLIENTS = (
        "The node closed connections of RPC clients because they are too many, too slow or malformed.",
        "check the client named in the line, and put a proxy with limits in front of a public RPC",
        EVENT,
    )
