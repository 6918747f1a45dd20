"""Options of the L1 and L2 connections."""

from rollup_node.node.options.kinds import (
    ANY_INTEGER,
    BOOL,
    COUNT,
    DURATION,
    HEADER,
    HTTP_URL,
    HTTP_URLS,
    NUMBER,
    PATH,
    RPC_URL,
    RPC_URLS,
    enum,
)
from rollup_node.node.options.model import Option, Section

L1 = Section(
    "L1 connection",
    (
        Option(
            *("l1", RPC_URLS, "http://127.0.0.1:8545", "NODE_L1_ETH_RPC"),
            "JSON-RPC endpoint of L1 (eth namespace); several separated by commas take over from each other.",
        ),
        Option("l1.beacon", HTTP_URL, None, "NODE_L1_BEACON", "HTTP endpoint of an L1 beacon node, for blobs."),
        Option(
            *("l1.beacon-fallbacks", HTTP_URLS, None, "NODE_L1_BEACON_FALLBACKS"),
            "Further Beacon API endpoints, asked for blobs that l1.beacon does not have, such as expired ones.",
            old_names=(("l1.beacon-archiver", "NODE_L1_BEACON_ARCHIVER"),),
        ),
        Option(
            *("l1.beacon-header", HEADER, None, "NODE_L1_BEACON_HEADER"),
            "A header added to every request to l1.beacon, as `X-Key: Value`.",
            secret=True,
        ),
        Option(
            *("l1.beacon.fetch-all-sidecars", BOOL, "false", "NODE_L1_BEACON_FETCH_ALL_SIDECARS"),
            "Fetch all sidecars of a slot and pick the needed ones here, for beacon nodes whose filter is broken. "
            "NODE_L1_BEACON sets it too when its value is true or false.",
        ),
        Option(
            *("l1.beacon.ignore", BOOL, "false", "NODE_L1_BEACON_IGNORE"),
            "Start even if the health check of the beacon node fails, or there is none.",
        ),
        Option(
            *("l1.beacon.slot-duration-override", COUNT, "0", "NODE_L1_BEACON_SLOT_DURATION_OVERRIDE"),
            "Seconds per L1 slot, in place of what the beacon node says; 0: ask it.",
        ),
        Option(
            *("l1.cache-size", COUNT, "900", "NODE_L1_CACHE_SIZE"),
            "L1 blocks kept with their receipts and transactions; 0: 3/2 of the sequencing window.",
        ),
        Option(
            *("l1.epoch-poll-interval", DURATION, "6m24s", "NODE_L1_EPOCH_POLL_INTERVAL"),
            "How often the safe and finalized L1 blocks are asked for; 0 or less: never.",
        ),
        Option(
            *("l1.http-poll-interval", DURATION, "12s", "NODE_L1_HTTP_POLL_INTERVAL"),
            "How often the newest L1 block is asked for over HTTP.",
        ),
        Option(
            *("l1.max-concurrency", ANY_INTEGER, "10", "NODE_L1_MAX_CONCURRENCY"),
            "L1 requests under way at the same time, at most.",
        ),
        Option(
            *("l1.rpc-max-batch-size", ANY_INTEGER, "20", "NODE_L1_RPC_MAX_BATCH_SIZE"),
            "L1 requests in one batch, at most 500; the rate limit counts a batch by its requests.",
        ),
        Option(
            *("l1.rpc-rate-limit", NUMBER, "0", "NODE_L1_RPC_RATE_LIMIT"),
            "L1 requests per second, at most; 0: no limit.",
        ),
        Option(
            "l1.rpckind",
            enum(
                *("standard", "basic", "any"),
                *("alchemy", "quicknode", "infura", "parity", "nethermind", "debug_geth", "erigon"),
            ),
            *("standard", "NODE_L1_RPC_KIND"),
            "Kind of L1 provider: which methods receipts are fetched by.",
        ),
        Option(
            *("l1.runtime-config-reload-interval", DURATION, "10m0s", "NODE_L1_RUNTIME_CONFIG_RELOAD_INTERVAL"),
            "How often the runtime config is read from L1; 0 or less: only at the start.",
        ),
        Option(
            *("l1.trustrpc", BOOL, "false", "NODE_L1_TRUST_RPC"),
            "Believe the L1 provider instead of recomputing hashes and checking proofs: faster, and needed for "
            "providers without eth_getProof.",
        ),
    ),
)

L2 = Section(
    "L2 execution engine",
    (
        Option(
            *("l2", RPC_URL, None, "NODE_L2_ENGINE_RPC"),
            "JSON-RPC endpoint of the execution engine with JWT authentication (engine and eth namespaces). Required.",
        ),
        Option(
            *("l2.engine-rpc-timeout", DURATION, "10s", "NODE_L2_ENGINE_RPC_TIMEOUT"),
            "How long one call to the engine may take.",
        ),
        Option(
            *("l2.jwt-secret", PATH, None, "NODE_L2_ENGINE_AUTH"),
            "File with the secret shared with the engine, 32 bytes in hex. A missing or empty file gets a new secret; "
            "not given: node_jwt.txt.",
        ),
        Option(
            *("l2.enginekind", enum("geth", "reth", "erigon"), "geth", "NODE_L2_ENGINE_KIND"),
            "Kind of engine: whether it may sync by itself when it already has a finalized block.",
        ),
        Option(
            *("l2.follow.source", RPC_URL, None, "NODE_L2_FOLLOW_SOURCE"),
            "RPC of another node whose safe and finalized heads are followed instead of deriving.",
            missing="following another node",
        ),
        Option(
            *("l2.follow.source.rpc-timeout", DURATION, "10s", "NODE_L2_FOLLOW_SOURCE_RPC_TIMEOUT"),
            "How long one call to l2.follow.source may take.",
        ),
        Option(
            *("l2.engine-sync", BOOL, "false", "NODE_L2_ENGINE_SYNC_ENABLED"),
            "The same as syncmode=execution-layer.",
            hidden=True,
            missing="sync by the execution layer",
            warning="use --syncmode=execution-layer in its place",
        ),
        Option(
            *("l2.skip-sync-start-check", BOOL, "false", "NODE_L2_SKIP_SYNC_START_CHECK"),
            "At a reset, jump to the safe head once a canonical L1 origin is found.",
            hidden=True,
        ),
        Option(
            *("l2.backup-unsafe-sync-rpc", RPC_URL, None, "NODE_L2_BACKUP_UNSAFE_SYNC_RPC"),
            "No effect.",
            hidden=True,
            warning="it has no effect any more",
        ),
        Option(
            *("l2.backup-unsafe-sync-rpc.trustrpc", BOOL, "false", "NODE_L2_BACKUP_UNSAFE_SYNC_RPC_TRUST_RPC"),
            "No effect.",
            hidden=True,
            warning="it has no effect any more",
        ),
    ),
)
