"""Options of the process itself: logs, servers, where it keeps things."""

from rollup_node.node.options.kinds import (
    ANY_INTEGER,
    BOOL,
    HOST,
    LOG_FORMAT,
    LOG_LEVEL,
    PATH,
    PORT,
    TEXT,
    enum,
    integer,
)
from rollup_node.node.options.model import Option, Section

LOGGING = Section(
    "Logging",
    (
        Option(*("log.color", BOOL, "false", "NODE_LOG_COLOR"), "Color the lines."),
        Option(*("log.format", LOG_FORMAT, "text", "NODE_LOG_FORMAT"), "Form of the lines."),
        Option(
            *("log.level", LOG_LEVEL, "info", "NODE_LOG_LEVEL"),
            "Most verbose level that is written, by name or number.",
        ),
        Option(*("log.pid", BOOL, "false", "NODE_LOG_PID"), "Show the process id in every line."),
    ),
)

RPC = Section(
    "RPC server",
    (
        Option(*("rpc.addr", HOST, "0.0.0.0", "NODE_RPC_ADDR"), "Address the RPC server listens on."),
        Option(
            *("rpc.admin-state", PATH, None, "NODE_RPC_ADMIN_STATE"),
            "File that keeps changes made by the admin API over restarts.",
            missing="keeping the state of the admin API",
            harmless=("",),
        ),
        Option(*("rpc.enable-admin", BOOL, "false", "NODE_RPC_ENABLE_ADMIN"), "Serve the admin API (experimental)."),
        Option(*("rpc.port", PORT, "9545", "NODE_RPC_PORT"), "Port the RPC server listens on; 0: any free one."),
    ),
)

METRICS = Section(
    "Metrics and profiling",
    (
        Option(*("metrics.addr", HOST, "0.0.0.0", "NODE_METRICS_ADDR"), "Address the metrics server listens on."),
        Option(*("metrics.enabled", BOOL, "false", "NODE_METRICS_ENABLED"), "Serve metrics."),
        Option(
            *("metrics.port", ANY_INTEGER, "7300", "NODE_METRICS_PORT"),
            "Port the metrics server listens on; 0: any free one.",
        ),
        Option(*("pprof.addr", HOST, "0.0.0.0", "NODE_PPROF_ADDR"), "Address the profiling server listens on."),
        Option(
            *("pprof.enabled", BOOL, "false", "NODE_PPROF_ENABLED"),
            "Serve profiles.",
            missing="profiling",
        ),
        Option(
            *("pprof.path", PATH, None, "NODE_PPROF_PATH"),
            "File of the profile, or a folder to write `<type>.prof` into.",
        ),
        Option(*("pprof.port", ANY_INTEGER, "6060", "NODE_PPROF_PORT"), "Port the profiling server listens on."),
        Option(
            "pprof.type",
            enum("cpu", "heap", "goroutine", "threadcreate", "block", "mutex", "allocs"),
            *(None, "NODE_PPROF_TYPE", "Profile that is written to pprof.path when the node stops."),
            missing="profiling",
        ),
    ),
)

PROCESS = Section(
    "Processes and files",
    (
        Option(
            *("config", PATH, None, "NODE_CONFIG"),
            'TOML file with options: names quoted (`"l1.beacon" = ...`) or as nested tables. Flags and variables win.',
        ),
        Option(
            *("workers", integer(1, 1024), None, "NODE_WORKERS"),
            "Compute processes; not given: one less than there are cores, at least 1.",
        ),
        Option(
            *("runtime.dir", PATH, None, "NODE_RUNTIME_DIR"),
            "Folder of this node alone for sockets and `processes.json`; not given: a private temporary one.",
        ),
        Option(
            *("snapshotlog.file", PATH, None, "NODE_SNAPSHOT_LOG"),
            "No effect.",
            warning="it has no effect any more",
        ),
        Option(
            *("heartbeat.enabled", BOOL, "false", "NODE_HEARTBEAT_ENABLED"),
            "No effect.",
            hidden=True,
            warning="it has no effect any more",
        ),
        Option(
            *("heartbeat.moniker", TEXT, None, "NODE_HEARTBEAT_MONIKER"),
            "No effect.",
            hidden=True,
            warning="it has no effect any more",
        ),
        Option(
            *("heartbeat.url", TEXT, None, "NODE_HEARTBEAT_URL"),
            "No effect.",
            hidden=True,
            warning="it has no effect any more",
        ),
    ),
)
