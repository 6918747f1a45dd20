"""Options of the L1 and L2 connections."""

from rollup_node.node.options import value_types
from rollup_node.node.options.option import Option, Section, ignored
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.l1.config import L1Config

L1 = Section(
    "L1 connection",
    Option(
        "l1",
        value_types.RPC_URLS,
        "JSON-RPC endpoint of L1 (eth namespace), or the path of an IPC socket; several, separated by commas, take "
        "over from each other.",
        default="http://127.0.0.1:8545",
        variable="NODE_L1_ETH_RPC",
        field=L1Config.endpoints,
    ),
    Option(
        "l1.beacon", value_types.HTTP_URL, "HTTP endpoint of an L1 beacon node, for blobs.", field=BlobsConfig.beacon
    ),
    Option(
        "l1.beacon-fallbacks",
        value_types.HTTP_URLS,
        "More Beacon API endpoints, for blobs that l1.beacon does not have, such as expired ones.",
        field=BlobsConfig.fallbacks,
        old_names=(("l1.beacon-archiver", "NODE_L1_BEACON_ARCHIVER"),),
    ),
    Option(
        "l1.beacon-header",
        value_types.HEADER,
        "A header for every request to l1.beacon, as `X-Key: Value`.",
        field=BlobsConfig.header,
        secret=True,
    ),
    Option(
        "l1.beacon.fetch-all-sidecars",
        value_types.BOOL,
        "Fetch all sidecars of a slot and select the needed ones here, for beacon nodes with a broken filter. "
        "NODE_L1_BEACON also sets this if its value is true or false.",
        field=BlobsConfig.fetch_all_sidecars,
    ),
    Option(
        "l1.beacon.ignore",
        value_types.BOOL,
        "Start even if the health check of the beacon node fails, or without a beacon node.",
    ),
    Option(
        "l1.beacon.slot-duration-override",
        value_types.OPTIONAL_COUNT,
        "Seconds per L1 slot, instead of the beacon node's value; 0: use that value.",
        default="0",
        field=BlobsConfig.slot_seconds,
    ),
    Option(
        "l1.cache-size",
        value_types.COUNT,
        "Number of L1 blocks to cache with their receipts and transactions; 0: 3/2 of the sequencing window.",
        default="900",
        field=L1Config.cache_size,
    ),
    Option(
        "l1.checkpoint",
        value_types.ROOT,
        "Root of a recent finalized beacon block, from a source that you trust: L1 is then proven from it, and no"
        " endpoint is believed.",
    ),
    Option(
        "l1.checkpoint.beacon",
        value_types.HTTP_URLS,
        "Beacon API endpoints with light client routes, for l1.checkpoint; by default l1.beacon and its fallbacks.",
    ),
    Option(
        "l1.checkpoint.network",
        value_types.OPTIONAL_PATH,
        "JSON file of a private L1's beacon chain, for l1.checkpoint: what the Beacon API returns for config/spec and"
        " beacon/genesis, in one object.",
    ),
    Option(
        "l1.checkpoint.path",
        value_types.OPTIONAL_PATH,
        "File in which the newest proven root is kept, so that a restart needs no new l1.checkpoint.",
    ),
    Option(
        "l1.epoch-poll-interval",
        value_types.DURATION,
        "How often to poll the safe and finalized L1 blocks; 0 or less: never.",
        default="6m24s",
        field=L1Config.epoch_poll_interval,
    ),
    Option(
        "l1.http-poll-interval",
        value_types.DURATION,
        "How often to poll the newest L1 block over HTTP.",
        default="12s",
        field=L1Config.poll_interval,
    ),
    Option(
        "l1.max-concurrency",
        value_types.ANY_INTEGER,
        "Maximum number of concurrent L1 requests.",
        default="10",
        field=L1Config.max_concurrency,
    ),
    Option(
        "l1.rpc-max-batch-size",
        value_types.ANY_INTEGER,
        "Maximum number of L1 requests in a batch, up to 500; the rate limit counts each request of a batch.",
        default="20",
        field=L1Config.max_batch,
    ),
    Option(
        "l1.rpc-rate-limit",
        value_types.NUMBER,
        "Maximum number of L1 requests per second; 0: no limit.",
        default="0",
        field=L1Config.rate_limit,
    ),
    Option(
        "l1.rpckind",
        value_types.enum(
            *("standard", "basic", "any"),
            *("alchemy", "quicknode", "infura", "parity", "nethermind", "debug_geth", "erigon"),
        ),
        "Kind of L1 provider, which decides the methods for fetching receipts.",
        default="standard",
        variable="NODE_L1_RPC_KIND",
        field=L1Config.rpc_kind,
    ),
    Option(
        "l1.runtime-config-reload-interval",
        value_types.DURATION,
        "How often to read the runtime config from L1; 0 or less: only at the start.",
        default="10m0s",
        field=L1Config.runtime_config_interval,
    ),
    Option(
        "l1.trustrpc",
        value_types.BOOL,
        "Trust the L1 provider instead of recomputing hashes and checking proofs: faster, and needed "
        "for providers without eth_getProof.",
        variable="NODE_L1_TRUST_RPC",
        field=L1Config.trust_rpc,
    ),
)

L2 = Section(
    "L2 execution engine",
    Option(
        "l2",
        value_types.RPC_URL,
        "JSON-RPC endpoint of the execution engine with JWT authentication (engine and eth namespaces), or the path of "
        "its IPC socket, which needs no JWT. Required.",
        variable="NODE_L2_ENGINE_RPC",
        field=EngineConfig.url,
    ),
    Option(
        "l2.engine-rpc-timeout",
        value_types.DURATION,
        "Timeout of one call to the engine.",
        default="10s",
        field=EngineConfig.timeout,
    ),
    Option(
        "l2.jwt-secret",
        value_types.PATH,
        "File with the secret shared with the engine, 32 bytes in hex. The node writes a new secret to a "
        "missing or empty file; not set: node_jwt.txt.",
        variable="NODE_L2_ENGINE_AUTH",
    ),
    Option(
        "l2.jwt-secret-encoded",
        value_types.KEY,
        "The secret itself in place of its file: for a variable or a credential.",
        variable="NODE_L2_ENGINE_AUTH_ENCODED",
        secret=True,
    ),
    Option(
        "l2.enginekind",
        value_types.enum("geth", "reth", "erigon"),
        "Kind of engine, which decides whether EL sync may start if the engine already has a finalized block. "
        "If it is not set, the engine's own name decides.",
        default="geth",
        variable="NODE_L2_ENGINE_KIND",
        field=EngineConfig.engine_kind,
    ),
    Option(
        "l2.follow.source",
        value_types.RPC_URL,
        "RPC of another node, whose safe and finalized heads this node follows instead of deriving.",
        field=EngineConfig.follow_url,
    ),
    Option(
        "l2.follow.source.rpc-timeout",
        value_types.DURATION,
        "Timeout of one call to l2.follow.source.",
        default="10s",
        field=EngineConfig.follow_timeout,
    ),
    Option(
        "l2.engine-sync",
        value_types.BOOL,
        "Same as syncmode=execution-layer.",
        variable="NODE_L2_ENGINE_SYNC_ENABLED",
        hidden=True,
        warning="use --syncmode=execution-layer in its place",
    ),
    Option(
        "l2.skip-sync-start-check",
        value_types.BOOL,
        "At a reset, jump to the safe head once a canonical L1 origin is found.",
        field=EngineConfig.skip_sync_start_check,
        hidden=True,
    ),
    ignored("l2.backup-unsafe-sync-rpc", value_types.RPC_URL),
    ignored(
        "l2.backup-unsafe-sync-rpc.trustrpc",
        value_types.BOOL,
        default="false",
        variable="NODE_L2_BACKUP_UNSAFE_SYNC_RPC_TRUST_RPC",
    ),
)
