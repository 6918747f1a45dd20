"""Options of the node's roles: sequencer, conductor, signer, and the experimental modes."""

from rollup_node.node.options import value_types
from rollup_node.node.options.option import Option, Section, ignored
from rollup_node.stages.blobs.config import DaServerConfig
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.p2p.config import SignerConfig
from rollup_node.stages.rpc.config import RpcConfig

SEQUENCER = Section(
    "Sequencer and verifier",
    Option("sequencer.enabled", value_types.BOOL, "Sequence new L2 blocks.", field=EngineConfig.sequencer_enabled),
    Option(
        "sequencer.l1-confs",
        value_types.COUNT,
        "L1 blocks to stay behind the L1 head when choosing an L1 origin; at most 150.",
        default="4",
        field=EngineConfig.sequencer_l1_confs,
    ),
    Option(
        "sequencer.max-safe-lag",
        value_types.COUNT,
        "Maximum number of L2 blocks from the safe head to the unsafe head; 0: no limit.",
        default="0",
        field=EngineConfig.sequencer_max_safe_lag,
    ),
    Option(
        "sequencer.recover",
        value_types.BOOL,
        "Recover mode: fetch the next L1 origin before each block, and build empty blocks.",
        field=EngineConfig.sequencer_recover,
    ),
    Option(
        "sequencer.sealing-duration",
        value_types.DURATION,
        "How long before its timestamp a block is sealed.",
        default="50ms",
        field=EngineConfig.sealing_duration,
    ),
    Option(
        "sequencer.stopped",
        value_types.BOOL,
        "Start with the sequencer stopped; admin_startSequencer starts it.",
        field=EngineConfig.sequencer_stopped,
    ),
    Option(
        "verifier.l1-confs",
        value_types.COUNT,
        "L1 blocks to stay behind the L1 head when deriving.",
        default="0",
        field=L1Config.verifier_confs,
    ),
)

SERVICES = Section(
    "Conductor, persistence and signer",
    Option(
        "conductor.enabled",
        value_types.BOOL,
        "Let a conductor decide when this node sequences.",
        field=EngineConfig.conductor_enabled,
    ),
    Option(
        "conductor.rpc",
        value_types.HTTP_URL,
        "RPC endpoint of the conductor.",
        default="http://127.0.0.1:8547",
        field=EngineConfig.conductor_url,
    ),
    Option(
        "conductor.rpc-timeout",
        value_types.DURATION,
        "Timeout of one call to the conductor.",
        default="1s",
        field=EngineConfig.conductor_timeout,
    ),
    Option(
        "safedb.path",
        value_types.OPTIONAL_PATH,
        "File that records at which L1 block each L2 block became safe, for optimism_safeHeadAtL1Block.",
        field=EngineConfig.safedb_path,
    ),
    Option(
        "signer.address",
        value_types.OPTIONAL_ADDRESS,
        "Address for which the remote signer signs.",
        field=SignerConfig.address,
    ),
    Option(
        "signer.endpoint",
        value_types.OPTIONAL_HTTP_URL,
        "Endpoint of a remote block signer.",
        field=SignerConfig.endpoint,
    ),
    Option(
        "signer.header",
        value_types.PAIRS,
        "A header for the remote signer, as key=value; one per flag, separated by commas in the variable.",
        field=SignerConfig.headers,
        secret=True,
    ),
    Option(
        "signer.tls.ca",
        value_types.PATH,
        "File with the CA certificates of the remote signer, read at the start.",
        default="tls/ca.crt",
        field=SignerConfig.tls_ca,
    ),
    Option(
        "signer.tls.cert",
        value_types.PATH,
        "File with the client certificate for the remote signer, read again when it changes.",
        default="tls/tls.crt",
        field=SignerConfig.tls_cert,
    ),
    Option(
        "signer.tls.enabled",
        value_types.BOOL,
        "Authenticate to the remote signer with TLS, and verify the signer with its CA.",
        default="true",
        field=SignerConfig.tls_enabled,
    ),
    Option(
        "signer.tls.key",
        value_types.PATH,
        "File with the key of the client certificate, read again when it changes.",
        default="tls/tls.key",
        field=SignerConfig.tls_key,
    ),
)

ALT_DA = Section(
    "Alt-DA (beta)",
    Option(
        "altda.enabled",
        value_types.BOOL,
        "Read batches from an alternative data availability service; required for chains that store them there.",
    ),
    Option("altda.da-server", value_types.TEXT, "HTTP address of the DA server.", field=DaServerConfig.url),
    Option(
        "altda.da-service",
        value_types.BOOL,
        "The DA server computes the commitments itself. Only for batchers: a node only reads.",
    ),
    Option(
        "altda.get-timeout",
        value_types.DURATION,
        "Timeout of reading an input from the DA server; 0: 10 minutes.",
        default="0s",
        field=DaServerConfig.get_timeout,
    ),
    Option(
        "altda.max-concurrent-da-requests",
        value_types.integer(1),
        "Maximum number of concurrent requests to the DA server; with more than 1, the node reads inputs ahead faster.",
        default="1",
        field=DaServerConfig.max_requests,
    ),
    Option(
        "altda.put-timeout",
        value_types.DURATION,
        "Timeout of writing to the DA server. Only for batchers: a node only reads.",
        default="0s",
    ),
    Option(
        "altda.verify-on-read",
        value_types.BOOL,
        "Check that inputs match their commitments, for keccak commitments.",
        default="true",
        field=DaServerConfig.verify_on_read,
    ),
)

INTEROP = Section(
    "Interop (super experimental)",
    Option(
        "interop.dependency-set", value_types.PATH, "JSON file with the chains from which this chain takes messages."
    ),
    Option(
        "interop.jwt-secret",
        value_types.PATH,
        "File with the secret of the interop RPC, 32 bytes in hex. The node writes a new secret to a missing "
        "or empty file.",
    ),
    Option(
        "interop.rpc.addr",
        value_types.OPTIONAL_HOST,
        "Address of the interop RPC, through which an interop supervisor manages this node; empty: off.",
        field=RpcConfig.interop_addr,
    ),
    ignored("interop.supervisor", value_types.TEXT),
    Option(
        "interop.rpc.port",
        value_types.PORT,
        "Port of the interop RPC; 0: any free port.",
        default="9645",
        field=RpcConfig.interop_port,
    ),
)

EXPERIMENTAL = Section(
    "Experimental",
    Option(
        "experimental.sequencer-api",
        value_types.BOOL,
        "Serve the test sequencer RPC (namespace opstack).",
        field=RpcConfig.sequencer_api,
    ),
    Option(
        "fetch-withdrawal-root-from-state",
        value_types.BOOL,
        "Read the withdrawal storage root from the engine's state instead of the block header; needs an archive node.",
        field=EngineConfig.withdrawal_root_from_state,
    ),
)
