"""The secrets of a node, read from their files; a missing one is created."""

from collections.abc import Callable

from rollup_node.node.setup.jwt_secret import load_jwt_secret
from rollup_node.node.setup.notices import Notice
from rollup_node.node.setup.p2p import check_p2p_config, load_network_key
from rollup_node.node.setup.plan import NodePlan, NodeSecrets
from rollup_node.stages.io.log.logger import Level


def load_secrets(plan: NodePlan, notice: Callable[[Notice], None]) -> NodeSecrets:
    """Return the JWT secrets, and the network key if there is a peer-to-peer network.

    `notice` gets a line for each new one.

    Raises OptionError for a file or an option that is malformed, SetupError for a file that cannot be used."""
    jwt = load_jwt_secret(plan.values["l2.jwt-secret"])
    if jwt.is_new:
        notice(Notice(Level.INFO, f"created a new JWT secret in {jwt.path}: the execution engine needs it"))
    rpc_jwt = None
    if plan.values["rpc.jwt-secret"]:
        admin = load_jwt_secret(plan.values["rpc.jwt-secret"], "rpc.jwt-secret")
        if admin.is_new:
            notice(Notice(Level.INFO, f"created a new JWT secret in {admin.path}: clients of the admin API need it"))
        rpc_jwt = admin.secret
    interop_jwt = b""
    if plan.values["interop.rpc.addr"]:
        interop = load_jwt_secret(plan.values["interop.jwt-secret"], "interop.jwt-secret")
        if interop.is_new:
            notice(Notice(Level.INFO, f"created a new JWT secret in {interop.path}: the supervisor needs it"))
        interop_jwt = interop.secret
    if plan.p2p is None:
        return NodeSecrets(jwt.secret, jwt.path, None, rpc_jwt, interop_jwt)
    # Here, so that a wrong option leaves no new key behind.
    check_p2p_config(plan.p2p)
    key = load_network_key(plan.p2p)
    if key.is_new:
        notice(Notice(Level.INFO, f"created a new network key in {plan.p2p.priv_path}"))
    return NodeSecrets(jwt.secret, jwt.path, key.secret, rpc_jwt, interop_jwt)
