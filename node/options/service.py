"""Options of the process itself: logs, servers, where it keeps things."""

from rollup_node.node.options import value_types
from rollup_node.node.options.option import Option, Section, ignored
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.rpc.config import RpcConfig

LOGGING = Section(
    "Logging",
    Option("log.color", value_types.BOOL, "Color log lines.", field=LogSettings.color),
    Option(
        "log.file",
        value_types.OPTIONAL_PATH,
        "File to which log lines are written as well as to standard output.",
        field=LogSettings.file,
    ),
    Option(
        "log.file.max-files",
        value_types.integer(1, 1000),
        "Number of parts of the log file that are kept; the older ones end in .1, .2 and so on.",
        default="10",
        field=LogSettings.file_parts,
    ),
    Option(
        "log.file.max-size",
        value_types.integer(1, 1 << 20),
        "Size in MiB at which a new part of the log file begins.",
        default="100",
        field=LogSettings.file_mebibytes,
    ),
    Option("log.format", value_types.LOG_FORMAT, "Format of log lines.", default="text", field=LogSettings.format),
    Option(
        "log.level",
        value_types.LOG_LEVEL,
        "Most verbose level to write, by name or number.",
        default="info",
        field=LogSettings.level,
    ),
    Option("log.pid", value_types.BOOL, "Show the process id in every line.", field=LogSettings.pid),
)

RPC = Section(
    "RPC server",
    Option(
        "rpc.addr",
        value_types.HOST,
        "Address on which the RPC server listens.",
        default="0.0.0.0",
        field=RpcConfig.addr,
    ),
    Option(
        "rpc.admin-state",
        value_types.OPTIONAL_PATH,
        "File that keeps changes made by the admin API across restarts.",
        field=EngineConfig.admin_state_file,
    ),
    Option("rpc.enable-admin", value_types.BOOL, "Serve the admin API (experimental).", field=RpcConfig.enable_admin),
    Option(
        "rpc.corsdomain",
        value_types.TEXTS,
        "Origins whose web pages may call the RPC server, such as https://example.org; `*`: any; not set: none.",
        field=RpcConfig.cors_domains,
    ),
    Option(
        "rpc.jwt-secret",
        value_types.PATH,
        "File with a secret, 32 bytes in hex: calls to the admin and opstack APIs need a JWT signed with it, "
        "as calls to the engine do. The node writes a new secret to a missing or empty file.",
    ),
    Option(
        "rpc.port",
        value_types.PORT,
        "Port on which the RPC server listens; 0: any free port.",
        default="9545",
        field=RpcConfig.port,
    ),
    Option(
        "rpc.ready-l1-lag",
        value_types.COUNT,
        "`/readyz` answers 503 while derivation is more than this many L1 blocks behind; 0: never for this reason.",
        default="12",
        field=RpcConfig.ready_l1_lag,
    ),
    Option(
        "rpc.ready-safe-age",
        value_types.DURATION,
        "`/readyz` answers 503 while the safe head is older than this; set more than the batcher's interval; 0: never.",
        default="0s",
        field=RpcConfig.ready_safe_age,
    ),
    Option(
        "rpc.ready-unsafe-age",
        value_types.DURATION,
        "`/readyz` answers 503 while the unsafe head is older than this; for nodes that follow the tip by "
        "gossip; 0: never.",
        default="0s",
        field=RpcConfig.ready_unsafe_age,
    ),
    Option(
        "rpc.ws-enabled",
        value_types.BOOL,
        "Serve JSON-RPC by WebSocket too, with subscriptions of the unsafe, safe and finalized head.",
        field=RpcConfig.ws_enabled,
    ),
    Option(
        "rpc.vhosts",
        value_types.TEXTS,
        "Host names under which clients may address the RPC server, besides IP addresses; `*`: any.",
        default="*",
        field=RpcConfig.vhosts,
    ),
)

METRICS = Section(
    "Metrics and profiling",
    Option(
        "metrics.addr",
        value_types.HOST,
        "Address on which the metrics server listens.",
        default="0.0.0.0",
        field=RpcConfig.metrics_addr,
    ),
    Option("metrics.enabled", value_types.BOOL, "Serve Prometheus metrics.", field=RpcConfig.metrics_enabled),
    Option(
        "metrics.port",
        value_types.ANY_INTEGER,
        "Port on which the metrics server listens; 0: any free port.",
        default="7300",
        field=RpcConfig.metrics_port,
    ),
    Option(
        "tracing.otlp-endpoint",
        value_types.HTTP_URL,
        "OpenTelemetry collector that gets spans by OTLP over HTTP, such as http://127.0.0.1:4318; not set: none.",
    ),
    Option(
        "pprof.addr",
        value_types.HOST,
        "Address on which the profiling server listens.",
        default="0.0.0.0",
        field=RpcConfig.pprof_addr,
    ),
    Option(
        "pprof.enabled",
        value_types.BOOL,
        "Serve CPU, heap and other profiles of all processes in pprof's format.",
        field=RpcConfig.pprof_enabled,
    ),
    Option(
        "pprof.path",
        value_types.PATH,
        "File for the profile, or folder in which to write `<type>.prof`; not set: the working directory.",
    ),
    Option(
        "pprof.port",
        value_types.ANY_INTEGER,
        "Port on which the profiling server listens; 0: any free port.",
        default="6060",
        field=RpcConfig.pprof_port,
    ),
    Option(
        "pprof.type",
        value_types.enum("cpu", "heap", "goroutine", "threadcreate", "block", "mutex", "allocs"),
        "Type of the profile of all processes that the node writes to pprof.path when it stops.",
    ),
)

STATUS = Section(
    "Status page",
    Option(
        "status.addr",
        value_types.HOST,
        "Address on which the status page is served; if it is not a loopback address, anybody may read the page.",
        default="127.0.0.1",
        field=RpcConfig.status_addr,
    ),
    Option(
        "status.enabled",
        value_types.BOOL,
        "Serve a web page with the state of the node, at `/status`.",
        field=RpcConfig.status_enabled,
    ),
    Option(
        "status.port",
        value_types.PORT,
        "Port on which the status page is served; 0: any free port.",
        default="7310",
        field=RpcConfig.status_port,
    ),
)

PROCESS = Section(
    "Processes and files",
    Option(
        "config",
        value_types.PATH,
        'TOML file with options: quoted names (`"l1.beacon" = ...`) or nested tables; or YAML, in a file whose name'
        " ends with .yaml, .yml or .json. Flags and variables override it.",
    ),
    Option(
        "workers",
        value_types.integer(1, 1024),
        "Number of compute processes; not set: one less than the cores that the CPU quota allows, at least 1.",
    ),
    Option(
        "runtime.dir",
        value_types.PATH,
        "Folder for the sockets and `processes.json` of this node alone; not set: a private temporary folder.",
    ),
    ignored("snapshotlog.file", value_types.PATH, hidden=False, variable="NODE_SNAPSHOT_LOG"),
    ignored("heartbeat.enabled", value_types.BOOL),
    ignored("heartbeat.moniker", value_types.TEXT),
    ignored("heartbeat.url", value_types.TEXT),
)
