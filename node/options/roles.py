"""Options of the node's roles: sequencer, conductor, signer, and the experimental modes."""

from rollup_node.node.options.kinds import (
    BOOL,
    COUNT,
    DURATION,
    HTTP_URL,
    OPTIONAL_HOST,
    PAIRS,
    PATH,
    PORT,
    TEXT,
    integer,
)
from rollup_node.node.options.model import Option, Section

SEQUENCER = Section(
    "Sequencer and verifier",
    (
        Option(*("sequencer.enabled", BOOL, "false", "NODE_SEQUENCER_ENABLED"), "Sequence new L2 blocks."),
        Option(
            *("sequencer.l1-confs", COUNT, "4", "NODE_SEQUENCER_L1_CONFS"),
            "L1 blocks to stay behind the L1 head when choosing an origin; at most 150.",
        ),
        Option(
            *("sequencer.max-safe-lag", COUNT, "0", "NODE_SEQUENCER_MAX_SAFE_LAG"),
            "L2 blocks that the unsafe head may be ahead of the safe head; 0: any number.",
        ),
        Option(
            *("sequencer.recover", BOOL, "false", "NODE_SEQUENCER_RECOVER"),
            "Take the next L1 origin strictly and make empty blocks, to recover.",
        ),
        Option(
            *("sequencer.sealing-duration", DURATION, "50ms", "NODE_SEQUENCER_SEALING_DURATION"),
            "Time before a block's timestamp at which it is sealed.",
        ),
        Option(
            *("sequencer.stopped", BOOL, "false", "NODE_SEQUENCER_STOPPED"),
            "Start with the sequencer stopped; admin_startSequencer starts it.",
        ),
        Option(
            *("verifier.l1-confs", COUNT, "0", "NODE_VERIFIER_L1_CONFS"),
            "L1 blocks to stay behind the L1 head when deriving.",
        ),
    ),
)

SERVICES = Section(
    "Conductor, persistence and signer",
    (
        Option(
            *("conductor.enabled", BOOL, "false", "NODE_CONDUCTOR_ENABLED"),
            "Let a conductor decide when this node sequences.",
            missing="the conductor",
        ),
        Option(
            *("conductor.rpc", HTTP_URL, "http://127.0.0.1:8547", "NODE_CONDUCTOR_RPC"),
            "RPC endpoint of the conductor.",
        ),
        Option(
            *("conductor.rpc-timeout", DURATION, "1s", "NODE_CONDUCTOR_RPC_TIMEOUT"),
            "How long one call to the conductor may take.",
        ),
        Option(
            *("safedb.path", PATH, None, "NODE_SAFEDB_PATH"),
            "Database of safe head updates.",
            missing="the safe head database",
            harmless=("",),
        ),
        Option(*("signer.address", TEXT, None, "NODE_SIGNER_ADDRESS"), "Address that the remote signer signs for."),
        Option(
            *("signer.endpoint", TEXT, None, "NODE_SIGNER_ENDPOINT"),
            "Endpoint of a remote signer of blocks.",
            missing="the remote signer",
            harmless=("",),
        ),
        Option(
            *("signer.header", PAIRS, None, "NODE_SIGNER_HEADER"),
            "A header for the remote signer, as key=value; one per flag, separated by commas in the variable.",
            secret=True,
        ),
        Option(*("signer.tls.ca", PATH, "tls/ca.crt", "NODE_SIGNER_TLS_CA"), "TLS certificate authority file."),
        Option(*("signer.tls.cert", PATH, "tls/tls.crt", "NODE_SIGNER_TLS_CERT"), "TLS client certificate file."),
        Option(
            *("signer.tls.enabled", BOOL, "true", "NODE_SIGNER_TLS_ENABLED"),
            "Authenticate to the remote signer by TLS.",
        ),
        Option(*("signer.tls.key", PATH, "tls/tls.key", "NODE_SIGNER_TLS_KEY"), "TLS client key file."),
    ),
)

ALT_DA = Section(
    "Alt-DA (beta)",
    (
        Option(
            *("altda.enabled", BOOL, "false", "NODE_ALTDA_ENABLED"),
            "Read batches from an alternative data availability service.",
            missing="Alt-DA",
        ),
        Option(*("altda.da-server", TEXT, None, "NODE_ALTDA_DA_SERVER"), "HTTP address of the DA server."),
        Option(
            *("altda.da-service", BOOL, "false", "NODE_ALTDA_DA_SERVICE"),
            "The DA server makes the commitments itself.",
        ),
        Option(
            *("altda.get-timeout", DURATION, "0s", "NODE_ALTDA_GET_TIMEOUT"),
            "How long reading from the DA server may take; 0: no limit.",
        ),
        Option(
            *("altda.max-concurrent-da-requests", integer(1), "1", "NODE_ALTDA_MAX_CONCURRENT_DA_REQUESTS"),
            "DA requests under way at the same time, at most.",
        ),
        Option(
            *("altda.put-timeout", DURATION, "0s", "NODE_ALTDA_PUT_TIMEOUT"),
            "How long writing to the DA server may take; 0: no limit.",
        ),
        Option(
            *("altda.verify-on-read", BOOL, "true", "NODE_ALTDA_VERIFY_ON_READ"),
            "Check that what was read is what was committed to.",
        ),
    ),
)

INTEROP = Section(
    "Interop (super experimental)",
    (
        Option(
            *("interop.dependency-set", PATH, None, "NODE_INTEROP_DEPENDENCY_SET"),
            "JSON file with the chains this chain takes messages from.",
        ),
        Option(
            *("interop.jwt-secret", PATH, None, "NODE_INTEROP_JWT_SECRET"),
            "File with the secret of the interop RPC, 32 bytes in hex.",
        ),
        Option(
            *("interop.rpc.addr", OPTIONAL_HOST, None, "NODE_INTEROP_RPC_ADDR"),
            "Address of the interop RPC, by which a supervisor manages this node; empty: none.",
            missing="the interop RPC",
            harmless=("",),
        ),
        Option(
            *("interop.supervisor", TEXT, None, "NODE_INTEROP_SUPERVISOR"),
            "RPC of a supervisor that this node follows.",
            hidden=True,
            missing="being a client of a supervisor",
            harmless=("",),
        ),
        Option(*("interop.rpc.port", PORT, "9645", "NODE_INTEROP_RPC_PORT"), "Port of the interop RPC."),
    ),
)

EXPERIMENTAL = Section(
    "Experimental",
    (
        Option(
            *("experimental.sequencer-api", BOOL, "false", "NODE_EXPERIMENTAL_SEQUENCER_API"),
            "Serve the test sequencer RPC.",
            missing="the test sequencer RPC",
        ),
        Option(
            *("fetch-withdrawal-root-from-state", BOOL, "false", "NODE_FETCH_WITHDRAWAL_ROOT_FROM_STATE"),
            "Take the withdrawal storage root from the engine's state, not from the block header; needs an archive.",
        ),
    ),
)
