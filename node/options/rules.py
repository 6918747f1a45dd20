"""Rules for option values that need nothing but the options [OPT36 to OPT39, OPT44 to OPT60, OPT66 to OPT68].

Bounds, combinations, and what this version lacks."""

from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

from rollup_node.node.options.errors import OptionError, WrongOptions, shown, shown_url
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values
from rollup_node.node.system.resources import usable_cores

MAX_BATCH = 500
MAX_CACHE = 1_000_000
MAX_MESH = 1000
MAX_SEQUENCER_CONFS = 150
MESH = ("p2p.gossip.mesh.d", "p2p.gossip.mesh.lo", "p2p.gossip.mesh.dhi", "p2p.gossip.mesh.dlazy")
PEER_PORTS = ("p2p.listen.tcp", "p2p.listen.udp", "p2p.advertise.tcp", "p2p.advertise.udp")

Rule = Callable[[Values], Iterator[str]]


def check_options(values: Values) -> None:
    """Raise WrongOptions with every rule that is broken."""
    _check(RULES, values)


def check_l1_options(values: Values) -> None:
    """Check the options of commands that read only L1."""
    _check((_l1_required, _l1_limits, _alt_da), values)


def _check(rules: Iterable[Rule], values: Values) -> None:
    errors = [error for rule in rules for error in broken(rule, values)]
    if errors:
        raise WrongOptions(errors)


def broken(rule: Rule, values: Values) -> Iterator[str]:
    """Yield a line for each way in which the values break the rule, as far as the values it reads are valid."""
    try:
        yield from rule(values)
    except OptionError as error:
        yield str(error)


def option_warnings(values: Values) -> Iterator[str]:
    """Warnings about options that are set and have little or no effect, or can be read [OPT8, OPT68, OPT75, OPT88]."""
    for name in values.names_given():
        option = OPTIONS[name]
        if option.warning is not None:
            yield f"{values.source(name)}: {option.warning}"
        if option.secret and values.source(name).startswith("flag "):
            text = "a secret on the command line can be read by others: put it into a file, a variable, or a credential"
            yield f"{values.source(name)}: {text}"
    offset = values["syncmode.offset-el-safe"]
    if values.given("syncmode.offset-el-safe") and offset > 0 and not uses_el_sync(values):
        yield f"{values.source('syncmode.offset-el-safe')}: it acts only with --syncmode=execution-layer"
    if values.given("l1.runtime-config-reload-interval") and values["p2p.disable"]:
        source = values.source("l1.runtime-config-reload-interval")
        yield f"{source}: the runtime config serves the peer-to-peer network, which is switched off"
    if values["safedb.path"] and values["l2.follow.source"]:
        source = values.source("safedb.path")
        yield f"{source}: safe heads are not recorded, as another node is followed instead of deriving"
    signer, source = values["signer.endpoint"] or "", values.source("signer.endpoint")
    if signer and values["p2p.disable"]:
        yield f"{source}: blocks are signed for the peer-to-peer network, which is switched off"
    elif signer.startswith("http:"):
        yield f"{source}: the connection to the remote signer is not encrypted, use https://"
    yield from _writing_only(values)


def _writing_only(values: Values) -> Iterator[str]:
    """Warnings about options of Alt-DA that concern the writing of inputs [ADA2]."""
    for name in ("altda.da-service", "altda.put-timeout"):
        if values.given(name) and values[name]:
            yield f"{values.source(name)}: it is for batchers, a node only reads from the DA server"


def _l1_required(values: Values) -> Iterator[str]:
    if not values["l1"]:
        yield "flag l1 is required: give the JSON-RPC endpoint of L1"


def _l2_required(values: Values) -> Iterator[str]:
    if not values["l2"]:
        yield "flag l2 is required: give the execution engine's authenticated endpoint, such as http://127.0.0.1:8551"


def _chain_required(values: Values) -> Iterator[str]:
    if not values["network"] and not values["rollup.config"]:
        yield "flag network or rollup.config is required: name a built-in network or the chain's rollup.json"


def _l1_limits(values: Values) -> Iterator[str]:
    batch, rate = values["l1.rpc-max-batch-size"], values["l1.rpc-rate-limit"]
    concurrency, cache = values["l1.max-concurrency"], values["l1.cache-size"]
    if not 1 <= batch <= MAX_BATCH:
        yield (
            f"batch size is invalid or unreasonable: {values.source('l1.rpc-max-batch-size')} is {batch},"
            f" expected 1 to {MAX_BATCH}"
        )
    if rate < 0:
        yield f"rate limit cannot be negative: {values.source('l1.rpc-rate-limit')} is {rate:g}"
    if concurrency < 1:
        yield f"max concurrent requests cannot be less than 1: {values.source('l1.max-concurrency')} is {concurrency}"
    if cache > MAX_CACHE:
        yield f"cache size is dangerously large: {values.source('l1.cache-size')} is {cache}, at most {MAX_CACHE}"


def _engine_secret(values: Values) -> Iterator[str]:
    names = [name for name in ("l2.jwt-secret", "l2.jwt-secret-encoded") if values[name]]
    if len(names) > 1:
        yield f"cannot specify both a secret and its file: {values.source(names[0])} and {values.source(names[1])}"


def _timeouts(values: Values) -> Iterator[str]:
    if values["l2.engine-rpc-timeout"] <= 0:
        yield f"{values.source('l2.engine-rpc-timeout')} must be more than 0"
    if values["sequencer.sealing-duration"] < 0:
        yield f"{values.source('sequencer.sealing-duration')} cannot be negative"


def _sequencer(values: Values) -> Iterator[str]:
    confs = values["sequencer.l1-confs"]
    if values["sequencer.enabled"] and confs > MAX_SEQUENCER_CONFS:
        yield (
            f"{values.source('sequencer.l1-confs')} is {confs}, beyond the sequencer drift: at most"
            f" {MAX_SEQUENCER_CONFS} blocks (1800 seconds)"
        )


def _server_ports(values: Values) -> Iterator[str]:
    for server in ("metrics", "pprof"):
        port = values[f"{server}.port"]
        if values[f"{server}.enabled"] and not 0 <= port <= 65535:
            yield f"invalid {server} port: {values.source(f'{server}.port')} is {port}, expected 0 to 65535"


def _peers(values: Values) -> Iterator[str]:
    if values["p2p.disable"]:
        return
    yield from _peer_ports(values)
    low, high = values["p2p.peers.lo"], values["p2p.peers.hi"]
    if low <= 0 or high <= 0 or low > high:
        yield f"peers lo/hi tides are invalid: p2p.peers.lo is {low}, p2p.peers.hi is {high}"
    for name in MESH:
        if not 1 <= values[name] <= MAX_MESH:
            yield f"mesh D param must not be 0 or exceed {MAX_MESH}: {values.source(name)} is {values[name]}"
    security = values["p2p.security"]
    if "none" in security and len(security) > 1:
        yield f"cannot mix secure transport protocols with no-security: {values.source('p2p.security')}"
    elif "noise" not in security:
        yield f"the only security protocol is noise: {values.source('p2p.security')} must include it"
    if "yamux" not in values["p2p.mux"]:
        yield f"the only stream multiplexer is yamux: {values.source('p2p.mux')} must include it"
    if not values["p2p.peerstore.path"]:
        yield "peerstore path must be specified, use 'memory' to keep nothing on disk (--p2p.peerstore.path)"
    scoring = peer_scoring(values)
    if scoring not in ("none", "light"):
        yield f"unknown p2p scoring level {shown(scoring)}: --p2p.scoring takes none or light"
    keys = [name for name in ("p2p.sequencer.key", "p2p.sequencer.key.path") if values[name]]
    if keys and values["signer.endpoint"]:
        yield (
            "cannot specify both a private key and a remote signer for sequencer p2p: give p2p.sequencer.key or"
            " signer.endpoint"
        )
    if len(keys) > 1:
        yield f"cannot specify both a private key and its file: {values.source(keys[0])} and {values.source(keys[1])}"


def peer_scoring(values: Values) -> str:
    """Return the scoring strategy; the old names count only when the present one is not given."""
    names = ("p2p.scoring", "p2p.scoring.peers", "p2p.scoring.topics")
    return next(
        (str(values[name]) for name in names if values.given(name) and values[name]), values[names[0]] or "none"
    )


def _peer_ports(values: Values) -> Iterator[str]:
    for name in PEER_PORTS:
        port = values[name]
        if not 0 <= port <= 65535:
            yield f"port out of range: {values.source(name)} is {port}, expected 0 or 1024 to 65535"
        elif 0 < port < 1024:
            yield f"port is reserved for system: {values.source(name)} is {port}, expected 0 or 1024 to 65535"


def _signer(values: Values) -> Iterator[str]:
    endpoint, address = values["signer.endpoint"], values["signer.address"]
    if bool(endpoint) != bool(address):
        yield "signer endpoint and address must both be set or not set (--signer.endpoint, --signer.address)"
    files = [f"signer.tls.{name}" for name in ("ca", "cert", "key")]
    empty = [name for name in files if not values[name]]
    if values["signer.tls.enabled"] and empty:
        yield f"signer endpoint with TLS needs all of {', '.join(files)}: {empty[0]} is empty"


def _conductor(values: Values) -> Iterator[str]:
    if not values["conductor.enabled"]:
        return
    if not values["sequencer.enabled"]:
        yield "sequencer must be enabled when conductor is enabled: add --sequencer.enabled"
    if values["conductor.rpc-timeout"] <= 0:
        yield f"{values.source('conductor.rpc-timeout')} must be more than 0"


def _alt_da(values: Values) -> Iterator[str]:
    server = values["altda.da-server"]
    if not values["altda.enabled"]:
        return
    if not server:
        yield "altDA config error: no DA server was given (--altda.da-server)"
    elif not _is_http_address(server):
        yield f"altDA config error: {values.source('altda.da-server')} is not an HTTP address: {shown_url(server)}"


def _is_http_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        return False


def uses_el_sync(values: Values) -> bool:
    """Whether the execution engine fetches the chain first [ELS1]."""
    return bool(values["l2.engine-sync"]) or values["syncmode"] == "execution-layer"


def worker_count(values: Values) -> int:
    """Return the number of compute processes: `workers`, or one less than the usable cores, at least 1 [OPT85]."""
    if values["l2.follow.source"]:
        return 1
    return values["workers"] or max(1, usable_cores() - 1)


def _sync(values: Values) -> Iterator[str]:
    if values["l2.engine-sync"] and values.given("syncmode"):
        yield "cannot set both --l2.engine-sync and --syncmode at the same time"
    if values["syncmode.offset-el-safe"] < 0:
        yield f"{values.source('syncmode.offset-el-safe')} must be at least 0"
    if values["syncmode.req-resp"] and not values["p2p.sync.req-resp"]:
        yield "cannot set --syncmode.req-resp=true and --p2p.sync.req-resp=false at the same time"


def _interop(values: Values) -> Iterator[str]:
    if values["interop.rpc.addr"] and not values["interop.jwt-secret"]:
        yield (
            "interop RPC server requires JWT setup, but no JWT path was specified: give --interop.jwt-secret with"
            " --interop.rpc.addr"
        )


REQUIRED: tuple[Rule, ...] = (_l1_required, _l2_required, _chain_required)
RULES: tuple[Rule, ...] = (
    *REQUIRED,
    _l1_limits,
    _engine_secret,
    _timeouts,
    _sequencer,
    _server_ports,
    _peers,
    _signer,
    _conductor,
    _alt_da,
    _sync,
    _interop,
)
