"""Options of the process itself: logs, servers, where it keeps things."""

from rollup_node.node.options import value_types
from rollup_node.node.options.option import Option, Section, ignored
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.rpc.config import RpcConfig

LOGGING = Section(
    "Logging",
    (
        Option(
            name="log.color",
            value_type=value_types.BOOL,
            help="Color log lines.",
            field=LogSettings.color,
        ),
        Option(
            name="log.format",
            value_type=value_types.LOG_FORMAT,
            default="text",
            help="Format of log lines.",
            field=LogSettings.format,
        ),
        Option(
            name="log.level",
            value_type=value_types.LOG_LEVEL,
            default="info",
            help="Most verbose level to write, by name or number.",
            field=LogSettings.level,
        ),
        Option(
            name="log.pid",
            value_type=value_types.BOOL,
            help="Show the process id in every line.",
            field=LogSettings.pid,
        ),
    ),
)

RPC = Section(
    "RPC server",
    (
        Option(
            name="rpc.addr",
            value_type=value_types.HOST,
            default="0.0.0.0",
            help="Address on which the RPC server listens.",
            field=RpcConfig.addr,
        ),
        Option(
            name="rpc.admin-state",
            value_type=value_types.OPTIONAL_PATH,
            help="File that keeps changes made by the admin API across restarts.",
            field=EngineConfig.admin_state_file,
            used_by=("setup.state_files:sequencer_stopped",),
        ),
        Option(
            name="rpc.enable-admin",
            value_type=value_types.BOOL,
            help="Serve the admin API (experimental).",
            field=RpcConfig.enable_admin,
        ),
        Option(
            name="rpc.corsdomain",
            value_type=value_types.TEXTS,
            help=(
                "Origins whose web pages may call the RPC server, such as https://example.org; `*`: any; not set: none."
            ),
            field=RpcConfig.cors_domains,
        ),
        Option(
            name="rpc.jwt-secret",
            value_type=value_types.PATH,
            help=(
                "File with a secret, 32 bytes in hex: calls to the admin and opstack APIs need a JWT signed with it, "
                "as calls to the engine do. The node writes a new secret to a missing or empty file."
            ),
            used_by=("setup.secrets:load_secrets",),
        ),
        Option(
            name="rpc.port",
            value_type=value_types.PORT,
            default="9545",
            help="Port on which the RPC server listens; 0: any free port.",
            field=RpcConfig.port,
        ),
        Option(
            name="rpc.ready-l1-lag",
            value_type=value_types.COUNT,
            default="12",
            help=(
                "`/readyz` answers 503 while derivation is more than this many L1 blocks behind; 0: never for this "
                "reason."
            ),
            field=RpcConfig.ready_l1_lag,
        ),
        Option(
            name="rpc.ready-safe-age",
            value_type=value_types.DURATION,
            default="0s",
            help=(
                "`/readyz` answers 503 while the safe head is older than this; set more than the batcher's interval; "
                "0: never."
            ),
            field=RpcConfig.ready_safe_age,
        ),
        Option(
            name="rpc.ready-unsafe-age",
            value_type=value_types.DURATION,
            default="0s",
            help=(
                "`/readyz` answers 503 while the unsafe head is older than this; for nodes that follow the tip by "
                "gossip; 0: never."
            ),
            field=RpcConfig.ready_unsafe_age,
        ),
        Option(
            name="rpc.vhosts",
            value_type=value_types.TEXTS,
            default="*",
            help="Host names under which clients may address the RPC server, besides IP addresses; `*`: any.",
            field=RpcConfig.vhosts,
        ),
    ),
)

METRICS = Section(
    "Metrics and profiling",
    (
        Option(
            name="metrics.addr",
            value_type=value_types.HOST,
            default="0.0.0.0",
            help="Address on which the metrics server listens.",
            field=RpcConfig.metrics_addr,
        ),
        Option(
            name="metrics.enabled",
            value_type=value_types.BOOL,
            help="Serve Prometheus metrics.",
            field=RpcConfig.metrics_enabled,
        ),
        Option(
            name="metrics.port",
            value_type=value_types.ANY_INTEGER,
            default="7300",
            help="Port on which the metrics server listens; 0: any free port.",
            field=RpcConfig.metrics_port,
        ),
        Option(
            name="pprof.addr",
            value_type=value_types.HOST,
            default="0.0.0.0",
            help="Address on which the profiling server listens.",
            field=RpcConfig.pprof_addr,
        ),
        Option(
            name="pprof.enabled",
            value_type=value_types.BOOL,
            help="Serve CPU, heap and other profiles of all processes in pprof's format.",
            field=RpcConfig.pprof_enabled,
        ),
        Option(
            name="pprof.path",
            value_type=value_types.PATH,
            help="File for the profile, or folder in which to write `<type>.prof`; not set: the working directory.",
            used_by=("setup.plan:profiling_settings",),
        ),
        Option(
            name="pprof.port",
            value_type=value_types.ANY_INTEGER,
            default="6060",
            help="Port on which the profiling server listens; 0: any free port.",
            field=RpcConfig.pprof_port,
        ),
        Option(
            name="pprof.type",
            value_type=value_types.enum("cpu", "heap", "goroutine", "threadcreate", "block", "mutex", "allocs"),
            help="Type of the profile of all processes that the node writes to pprof.path when it stops.",
            used_by=("setup.plan:profiling_settings",),
        ),
    ),
)

STATUS = Section(
    "Status page",
    (
        Option(
            name="status.addr",
            value_type=value_types.HOST,
            default="127.0.0.1",
            help=(
                "Address on which the status page is served; if it is not a loopback address, anybody may read the "
                "page."
            ),
            field=RpcConfig.status_addr,
        ),
        Option(
            name="status.enabled",
            value_type=value_types.BOOL,
            help="Serve a web page with the state of the node, at `/status`.",
            field=RpcConfig.status_enabled,
        ),
        Option(
            name="status.port",
            value_type=value_types.PORT,
            default="7310",
            help="Port on which the status page is served; 0: any free port.",
            field=RpcConfig.status_port,
        ),
    ),
)

PROCESS = Section(
    "Processes and files",
    (
        Option(
            name="config",
            value_type=value_types.PATH,
            help=(
                'TOML file with options: quoted names (`"l1.beacon" = ...`) or nested tables; or YAML, in a file whose'
                " name ends with .yaml, .yml or .json. Flags and variables override it."
            ),
            used_by=("options.parsing:option_parser",),
        ),
        Option(
            name="workers",
            value_type=value_types.integer(1, 1024),
            help="Number of compute processes; not set: one less than the cores that the CPU quota allows, at least 1.",
            used_by=("options.rules:worker_count",),
        ),
        Option(
            name="runtime.dir",
            value_type=value_types.PATH,
            help="Folder for the sockets and `processes.json` of this node alone; not set: a private temporary folder.",
            used_by=("setup.plan:plan_node",),
        ),
        ignored("snapshotlog.file", value_types.PATH, hidden=False, variable="NODE_SNAPSHOT_LOG"),
        ignored("heartbeat.enabled", value_types.BOOL),
        ignored("heartbeat.moniker", value_types.TEXT),
        ignored("heartbeat.url", value_types.TEXT),
    ),
)
