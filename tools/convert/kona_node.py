"""kona-node's options [CMD17].

Source: rust/kona/bin/node/src/flags and commands/node.rs, and crates/utilities/cli/src/flags, of the OP Stack monorepo
in 2026."""

from typing import NamedTuple

from rollup_node.node.setup.networks import network_of_chain
from rollup_node.tools.convert.conversion import Conversion, Given, is_boolean, read_flags, read_variables
from rollup_node.tools.convert.op_node import finish
from rollup_node.tools.convert.sources import Source

PREFIX = "KONA_NODE_"
CHAINS = {"optimism": "10", "optimism-sepolia": "11155420", "base": "8453", "base-sepolia": "84532"}
"""Names of chains for `--chain`, which takes ids as well; the others of its library are asked for by id."""
LEVELS = ("error", "error", "warn", "info", "debug", "detail")
_NOT_HERE = "this node has nothing like it"
_SECRET = "a secret is not copied: write it into the file of l2.jwt-secret"


class Row(NamedTuple):
    """An option of kona-node: its flags, its variable without the prefix, and ours.

    `unit` follows the number to make our duration. `why` says why there is none of ours."""

    flags: str
    variable: str
    ours: str = ""
    unit: str = ""
    why: str = ""
    is_flag: bool = False


ROWS = (
    Row("l1-eth-rpc l1", "L1_ETH_RPC", "l1"),
    Row("l1-trust-rpc l1.trust-rpc", "L1_TRUST_RPC", "l1.trustrpc"),
    Row("l1-beacon l1.beacon", "L1_BEACON", "l1.beacon"),
    Row("l1-slot-duration-override l1.slot-duration-override", "L1_SLOT_DURATION_OVERRIDE",
        "l1.beacon.slot-duration-override"),
    Row("l2-engine-rpc l2", "L2_ENGINE_RPC", "l2"),
    Row("l2-engine-jwt-secret l2.jwt-secret", "L2_ENGINE_AUTH", "l2.jwt-secret"),
    Row("l2-engine-jwt-encoded l2.jwt-secret-encoded", "L2_ENGINE_AUTH_ENCODED", why=_SECRET),
    Row("l2-engine-timeout l2.timeout", "L2_ENGINE_TIMEOUT", "l2.engine-rpc-timeout", "ms"),
    Row("l2-trust-rpc l2.trust-rpc", "L2_TRUST_RPC", why="the engine is always believed", is_flag=True),
    Row("syncmode.offset-el-safe", "SYNCMODE_OFFSET_EL_SAFE", "syncmode.offset-el-safe", "s"),
    Row("l2-follow-source l2.follow.source", "L2_FOLLOW_SOURCE", "l2.follow.source"),
    Row("l2-config-file rollup-cfg", "ROLLUP_CONFIG", "rollup.config"),
    Row("l1-config-file rollup-l1-cfg", "L1_CHAIN_CONFIG", "rollup.l1-chain-config"),
    Row("interop.dependency-set", "INTEROP_DEPENDENCY_SET", "interop.dependency-set"),
    Row("safedb.path", "SAFEDB_PATH", "safedb.path"),
    *(Row(f"p2p.{name}", f"P2P_{variable}", f"p2p.{name}") for name, variable in {
        "no-discovery": "NO_DISCOVERY", "priv.path": "PRIV_PATH", "priv.raw": "PRIV_RAW",
        "advertise.ip": "ADVERTISE_IP", "advertise.tcp": "ADVERTISE_TCP_PORT", "advertise.udp": "ADVERTISE_UDP_PORT",
        "listen.ip": "LISTEN_IP", "listen.tcp": "LISTEN_TCP_PORT", "listen.udp": "LISTEN_UDP_PORT",
        "peers.lo": "PEERS_LO", "peers.hi": "PEERS_HI", "gossip.mesh.d": "GOSSIP_MESH_D",
        "gossip.mesh.lo": "GOSSIP_MESH_DLO", "gossip.mesh.dhi": "GOSSIP_MESH_DHI",
        "gossip.mesh.dlazy": "GOSSIP_MESH_DLAZY", "gossip.mesh.floodpublish": "GOSSIP_FLOOD_PUBLISH",
        "scoring": "SCORING", "ban.peers": "BAN_PEERS", "ban.threshold": "BAN_THRESHOLD", "bootnodes": "BOOTNODES",
        "sequencer.key": "SEQUENCER_KEY",
    }.items()),
    Row("p2p.peers.grace", "P2P_PEERS_GRACE", "p2p.peers.grace", "s"),
    Row("p2p.ban.duration", "P2P_BAN_DURATION", "p2p.ban.duration", "m"),
    Row("p2p.sequencer.key.path", "P2P_SEQUENCER_KEY_PATH", why="give its key by p2p.sequencer.key or a remote signer"),
    *(Row(f"p2p.{name}", f"P2P_{variable}", why=_NOT_HERE) for name, variable in {
        "discovery.interval": "DISCOVERY_INTERVAL", "discovery.randomize": "DISCOVERY_RANDOMIZE",
        "bootstore": "BOOTSTORE", "redial": "REDIAL", "redial.period": "REDIAL_PERIOD",
    }.items()),
    Row("p2p.no-bootstore", "P2P_NO_BOOTSTORE", why=_NOT_HERE, is_flag=True),
    Row("p2p.topic-scoring", "P2P_TOPIC_SCORING", why=_NOT_HERE, is_flag=True),
    Row("p2p.unsafe.block.signer", "P2P_UNSAFE_BLOCK_SIGNER", why="the address is read from L1"),
    *(Row(f"p2p.signer.{name}", f"P2P_SIGNER_{name.upper().replace('.', '_')}", f"signer.{name}")
      for name in ("endpoint", "address", "header", "tls.ca", "tls.cert", "tls.key")),
    Row("rpc.disabled", "RPC_DISABLED", why="the RPC server cannot be switched off", is_flag=True),
    Row("rpc.no-restart", "RPC_NO_RESTART", why="each process is started again", is_flag=True),
    Row("rpc.addr", "RPC_ADDR", "rpc.addr"),
    Row("port rpc.port", "RPC_PORT", "rpc.port"),
    Row("rpc.enable-admin", "RPC_ENABLE_ADMIN", "rpc.enable-admin"),
    Row("rpc.admin-state", "RPC_ADMIN_STATE", "rpc.admin-state"),
    Row("rpc.ws-enabled", "RPC_WS_ENABLED", "rpc.ws-enabled"),
    Row("rpc.dev-enabled", "RPC_DEV_ENABLED", why=_NOT_HERE, is_flag=True),
    Row("rpc.experimental-opstack-api", "RPC_EXPERIMENTAL_OPSTACK_API", "experimental.sequencer-api"),
    *(Row(f"sequencer.{name}", f"SEQUENCER_{name.upper().replace('-', '_')}", f"sequencer.{name}")
      for name in ("stopped", "max-safe-lag", "l1-confs", "recover")),
    Row("conductor.rpc", "CONDUCTOR_RPC", "conductor.rpc"),
    Row("conductor.rpc.timeout", "CONDUCTOR_RPC_TIMEOUT", "conductor.rpc-timeout", "s"),
    *(Row(f"{fork.replace('_', '-').lower()}-override", f"OVERRIDE_{fork}", why="kona-node parses it and never uses it")
      for fork in ("CANYON", "DELTA", "ECOTONE", "FJORD", "GRANITE", "HOLOCENE", "ISTHMUS", "JOVIAN", "KARST",
                   "PECTRA_BLOB_SCHEDULE")),
    Row("lagoon-override", "OVERRIDE_INTEROP", why="kona-node parses it and never uses it"),
    *(Row(f"metrics.{name}", f"KONA_METRICS_{name.upper()}", f"metrics.{name}")
      for name in ("enabled", "port", "addr")),
    Row("logs.stdout.format", "LOG_STDOUT_FORMAT", "log.format"),
    Row("logs.stdout.quiet q", "STDOUT_LOG_QUIET", why="the log goes to standard output", is_flag=True),
    *(Row(f"logs.file.{name}", f"LOG_FILE_{name.upper().replace('-', '_')}", why=_NOT_HERE)
      for name in ("directory", "format", "rotation", "max-files", "max-age-days")),
    # With a meaning of their own, below.
    Row("mode", "MODE"),
    Row("chain l2-chain-id c", "L2_CHAIN_ID"),
    *(Row("v" * count, "LOG_LEVEL" if count == 1 else "", is_flag=True) for count in range(1, 10)),
)  # fmt: skip
_BY_FLAG = {flag: row for row in ROWS for flag in row.flags.split()}
FLAGS = {flag: row.is_flag or bool(row.ours and is_boolean(row.ours)) for flag, row in _BY_FLAG.items()}
VARIABLES = {
    row.variable if row.variable.startswith("KONA_") else PREFIX + row.variable: row.flags.split()[0]
    for row in ROWS
    if row.variable
}


def convert(source: Source) -> Conversion:
    """Return what a command line and variables of kona-node set."""
    conversion = Conversion("kona-node")
    words = tuple(word for word in source.words if word.text != "node")
    for one in [
        *read_variables(source, PREFIX, VARIABLES, conversion),
        *read_flags(source._replace(words=words), FLAGS, conversion),
    ]:
        _add(one, _BY_FLAG[one.name], conversion)
    if not conversion.has("network") and not conversion.has("rollup.config"):
        conversion.default("network", "op-mainnet", "kona-node's chain is 10 by default")
    conversion.default("l2.jwt-secret", "jwt.hex", "kona-node's default")
    conversion.default("syncmode", "execution-layer", "kona-node has no other")
    conversion.default("p2p.listen.udp", "9223", "kona-node's default")
    if conversion.has("metrics.enabled"):
        conversion.default("metrics.port", "9090", "kona-node's default")
    if conversion.has("conductor.rpc"):
        conversion.default("conductor.enabled", "true", "conductor.rpc alone enables it there")
    if not conversion.has("l1.trustrpc"):
        conversion.notes.append("l1.trustrpc stays false: kona-node trusts L1 by default, this node checks it")
    conversion.require("l1", "l1.beacon", "l2")
    if not conversion.has("signer.tls.cert") and conversion.has("signer.endpoint"):
        conversion.default("signer.tls.enabled", "false", "kona-node uses TLS files only where they are given")
    finish(conversion)
    return conversion


def _add(one: Given, row: Row, conversion: Conversion) -> None:
    if row.why:
        conversion.drop(one, row.why)
    elif row.unit:
        if not one.text.isdigit():
            conversion.errors.append(f"{one.place}: kona-node refuses the value {one.text[:80]!r} of {one.name}")
            return
        conversion.add(row.ours, one._replace(text=one.text + row.unit))
    elif row.flags.startswith("chain "):
        _add_chain(one, conversion)
    elif row.flags == "mode":
        if one.text.lower() not in ("sequencer", "validator"):
            conversion.errors.append(f"{one.place}: kona-node has no mode {one.text[:80]!r}: sequencer or validator")
        conversion.add("sequencer.enabled", one._replace(text=str(one.text.lower() == "sequencer").lower()))
    elif set(row.flags) == {"v"}:
        level = len(one.name) if one.is_flag else int(one.text) if one.text.isdigit() else 3
        conversion.add("log.level", one._replace(text=LEVELS[min(level, 5)]))
    elif row.ours == "log.format":
        conversion.add(row.ours, one._replace(text="json" if one.text.lower() == "json" else "text"))
    elif is_boolean(row.ours) and one.text not in ("true", "false"):
        conversion.errors.append(
            f"{one.place}: kona-node refuses the value {one.text[:80]!r} of {one.name}: true or false"
        )
    else:
        conversion.add(row.ours, one)


def _add_chain(one: Given, conversion: Conversion) -> None:
    text = CHAINS.get(one.text.lower(), one.text)
    network = network_of_chain(int(text)) if text.isdigit() and len(text) < 20 else None
    if network is not None:
        conversion.add("network", one._replace(text=network.name))
    elif text.isdigit():
        conversion.drop(one, "no built-in network has this chain id; rollup.config has the chain's")
    else:
        conversion.errors.append(f"{one.place}: the chain id is wanted in place of {one.text[:80]!r}")
