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
    (
        Option(
            name="sequencer.enabled",
            value_type=value_types.BOOL,
            help="Sequence new L2 blocks.",
            field=EngineConfig.sequencer_enabled,
        ),
        Option(
            name="sequencer.l1-confs",
            value_type=value_types.COUNT,
            default="4",
            help="L1 blocks to stay behind the L1 head when choosing an L1 origin; at most 150.",
            field=EngineConfig.sequencer_l1_confs,
        ),
        Option(
            name="sequencer.max-safe-lag",
            value_type=value_types.COUNT,
            default="0",
            help="Maximum number of L2 blocks from the safe head to the unsafe head; 0: no limit.",
            field=EngineConfig.sequencer_max_safe_lag,
        ),
        Option(
            name="sequencer.recover",
            value_type=value_types.BOOL,
            help="Recover mode: fetch the next L1 origin before each block, and build empty blocks.",
            field=EngineConfig.sequencer_recover,
        ),
        Option(
            name="sequencer.sealing-duration",
            value_type=value_types.DURATION,
            default="50ms",
            help="How long before its timestamp a block is sealed.",
            field=EngineConfig.sealing_duration,
        ),
        Option(
            name="sequencer.stopped",
            value_type=value_types.BOOL,
            help="Start with the sequencer stopped; admin_startSequencer starts it.",
            field=EngineConfig.sequencer_stopped,
        ),
        Option(
            name="verifier.l1-confs",
            value_type=value_types.COUNT,
            default="0",
            help="L1 blocks to stay behind the L1 head when deriving.",
            field=L1Config.verifier_confs,
        ),
    ),
)

SERVICES = Section(
    "Conductor, persistence and signer",
    (
        Option(
            name="conductor.enabled",
            value_type=value_types.BOOL,
            help="Let a conductor decide when this node sequences.",
            field=EngineConfig.conductor_enabled,
            used_by=("setup.plan:node_configs",),
        ),
        Option(
            name="conductor.rpc",
            value_type=value_types.HTTP_URL,
            default="http://127.0.0.1:8547",
            help="RPC endpoint of the conductor.",
            field=EngineConfig.conductor_url,
        ),
        Option(
            name="conductor.rpc-timeout",
            value_type=value_types.DURATION,
            default="1s",
            help="Timeout of one call to the conductor.",
            field=EngineConfig.conductor_timeout,
        ),
        Option(
            name="safedb.path",
            value_type=value_types.OPTIONAL_PATH,
            help="File that records at which L1 block each L2 block became safe, for optimism_safeHeadAtL1Block.",
            field=EngineConfig.safedb_path,
        ),
        Option(
            name="signer.address",
            value_type=value_types.OPTIONAL_ADDRESS,
            help="Address for which the remote signer signs.",
            field=SignerConfig.address,
        ),
        Option(
            name="signer.endpoint",
            value_type=value_types.OPTIONAL_HTTP_URL,
            help="Endpoint of a remote block signer.",
            field=SignerConfig.endpoint,
            used_by=("options.rules:_peers", "options.rules:_signer", "setup.p2p:signer_config"),
        ),
        Option(
            name="signer.header",
            value_type=value_types.PAIRS,
            help="A header for the remote signer, as key=value; one per flag, separated by commas in the variable.",
            field=SignerConfig.headers,
            secret=True,
        ),
        Option(
            name="signer.tls.ca",
            value_type=value_types.PATH,
            default="tls/ca.crt",
            help="File with the CA certificates of the remote signer, read at the start.",
            field=SignerConfig.tls_ca,
        ),
        Option(
            name="signer.tls.cert",
            value_type=value_types.PATH,
            default="tls/tls.crt",
            help="File with the client certificate for the remote signer, read again when it changes.",
            field=SignerConfig.tls_cert,
        ),
        Option(
            name="signer.tls.enabled",
            value_type=value_types.BOOL,
            default="true",
            help="Authenticate to the remote signer with TLS, and verify the signer with its CA.",
            field=SignerConfig.tls_enabled,
        ),
        Option(
            name="signer.tls.key",
            value_type=value_types.PATH,
            default="tls/tls.key",
            help="File with the key of the client certificate, read again when it changes.",
            field=SignerConfig.tls_key,
        ),
    ),
)

ALT_DA = Section(
    "Alt-DA (beta)",
    (
        Option(
            name="altda.enabled",
            value_type=value_types.BOOL,
            help=(
                "Read batches from an alternative data availability service; required for chains that store them there."
            ),
            used_by=("setup.chain:_check_alt_da", "setup.plan:blobs_config"),
        ),
        Option(
            name="altda.da-server",
            value_type=value_types.TEXT,
            help="HTTP address of the DA server.",
            field=DaServerConfig.url,
        ),
        Option(
            name="altda.da-service",
            value_type=value_types.BOOL,
            help="The DA server computes the commitments itself. Only for batchers: a node only reads.",
            used_by=("options.rules:_writing_only",),
        ),
        Option(
            name="altda.get-timeout",
            value_type=value_types.DURATION,
            default="0s",
            help="Timeout of reading an input from the DA server; 0: 10 minutes.",
            field=DaServerConfig.get_timeout,
        ),
        Option(
            name="altda.max-concurrent-da-requests",
            value_type=value_types.integer(1),
            default="1",
            help=(
                "Maximum number of concurrent requests to the DA server; with more than 1, the node reads inputs ahead "
                "faster."
            ),
            field=DaServerConfig.max_requests,
        ),
        Option(
            name="altda.put-timeout",
            value_type=value_types.DURATION,
            default="0s",
            help="Timeout of writing to the DA server. Only for batchers: a node only reads.",
            used_by=("options.rules:_writing_only",),
        ),
        Option(
            name="altda.verify-on-read",
            value_type=value_types.BOOL,
            default="true",
            help="Check that inputs match their commitments, for keccak commitments.",
            field=DaServerConfig.verify_on_read,
        ),
    ),
)

INTEROP = Section(
    "Interop (super experimental)",
    (
        Option(
            name="interop.dependency-set",
            value_type=value_types.PATH,
            help="JSON file with the chains from which this chain takes messages.",
            used_by=("setup.chain:_dependency_set",),
        ),
        Option(
            name="interop.jwt-secret",
            value_type=value_types.PATH,
            help=(
                "File with the secret of the interop RPC, 32 bytes in hex. The node writes a new secret to a missing "
                "or empty file."
            ),
            used_by=("setup.secrets:load_secrets",),
        ),
        Option(
            name="interop.rpc.addr",
            value_type=value_types.OPTIONAL_HOST,
            help="Address of the interop RPC, through which a supervisor manages this node; empty: off.",
            field=RpcConfig.interop_addr,
            used_by=("setup.plan:is_managed",),
        ),
        ignored("interop.supervisor", value_types.TEXT),
        Option(
            name="interop.rpc.port",
            value_type=value_types.PORT,
            default="9645",
            help="Port of the interop RPC; 0: any free port.",
            field=RpcConfig.interop_port,
        ),
    ),
)

EXPERIMENTAL = Section(
    "Experimental",
    (
        Option(
            name="experimental.sequencer-api",
            value_type=value_types.BOOL,
            help="Serve the test sequencer RPC (namespace opstack).",
            field=RpcConfig.sequencer_api,
        ),
        Option(
            name="fetch-withdrawal-root-from-state",
            value_type=value_types.BOOL,
            help=(
                "Read the withdrawal storage root from the engine's state instead of the block header; needs an "
                "archive node."
            ),
            field=EngineConfig.withdrawal_root_from_state,
        ),
    ),
)
