"""What clients of the JSON-RPC server and an interop supervisor send, and tokens."""

import base64
import hmac
from hashlib import sha256

import orjson

from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.jwt_token import token_error
from rollup_node.stages.rpc import parameters
from rollup_node.stages.rpc.jsonrpc import JsonRpcError, JsonRpcRequest, count_values, parse_body
from rollup_node.stages.rpc.process.methods import METHODS
from rollup_node.tools.fuzz.targets.chain_seeds import payload
from rollup_node.tools.fuzz.targets.target import JSON_TOKENS, FuzzTarget, one_of

PARSERS = {method.name: method.parsers for method in METHODS}
SECRET, NOW = b"\x01" * 32, 1_700_000_000.0
_INTEROP = (parameters.block_seal, parameters.block_reference, parameters.number)


def request(data: bytes) -> object:
    """Return a body and the parameters of its calls.

    The bound of values holds for what is parsed, and each item is a request or an error."""
    body = parse_body(data)
    outcomes = set()
    for item in body.items:
        if not isinstance(item, JsonRpcRequest):
            assert orjson.dumps(item)
            outcomes.add("refused")
            continue
        parsers = PARSERS.get(item.method)
        outcomes.add("unknown" if parsers is None else _parsed(item, parsers))
    return body.is_batch, sorted(outcomes)


def _parsed(item: JsonRpcRequest, parsers: tuple[parameters.Parser, ...]) -> str:
    try:
        parameters.parse_params(item.params, parsers)
    except JsonRpcError as error:
        assert error.message and len(error.message) < 2000
        return "invalid"
    return item.method


def supervisor_request(data: bytes) -> object:
    """Parameters that only an interop supervisor sends."""
    item = parse_body(data).items[0]
    if not isinstance(item, JsonRpcRequest):
        return "refused"
    outcomes = []
    for parser in _INTEROP:
        try:
            parameters.parse_params(item.params, (parser,))
            outcomes.append(parser.__name__)
        except JsonRpcError as error:
            outcomes.append(type(error).__name__)
    return outcomes


def value_bound(data: bytes) -> object:
    """Return the count of values made without parsing is never below the number of values that parsing makes."""
    result = orjson.loads(data)
    assert _values(result) <= count_values(data)
    return type(result).__name__


def _values(raw: object) -> int:
    total, open_values = 0, [raw]
    while open_values:
        value = open_values.pop()
        total += 1
        if isinstance(value, list):
            open_values += value
        elif isinstance(value, dict):
            open_values += value.values()
    return total


def token(data: bytes) -> object:
    """Return an Authorization header, as aiohttp decodes it."""
    return token_error(data.decode("utf-8", "surrogateescape"), SECRET, NOW)


def _signed_token(head: object, claims: object) -> bytes:
    parts = [base64.urlsafe_b64encode(orjson.dumps(item)).rstrip(b"=") for item in (head, claims)]
    signature = hmac.new(SECRET, b".".join(parts), sha256).digest()
    return b"Bearer " + b".".join((*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")))


def _call(method: str, *params: object, request_id: object = 1) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": list(params)}


_HASH = to_hex(bytes(32))
_ENVELOPE = envelope_to_json(payload())
_CALLS = [
    *(_call("optimism_syncStatus"), _call("optimism_outputAtBlock", "0x1"), _call("admin_startSequencer", _HASH)),
    *(_call("admin_postUnsafePayload", _ENVELOPE), _call("opp2p_peers", True), _call("opp2p_blockAddr", "::1")),
    _call("opp2p_blockSubnet", {"IP": "10.0.0.0", "Mask": base64.b64encode(b"\xff\xff\0\0").decode()}),
    *(_call("admin_setLogLevel", "debug", request_id="x"), _call("opstack_sealBlockV1", {"id": "0x" + "00" * 8})),
    _call("opstack_commitBlockV1", {"envelope": _ENVELOPE, "signature": "0x" + "11" * 65}),
]
_BODIES = [*map(orjson.dumps, _CALLS), orjson.dumps(_CALLS[:3])]
_BLOCK = {"hash": _HASH, "number": 5, "parentHash": _HASH, "timestamp": 7}
_INTEROP_BODIES = [orjson.dumps(_call("interop_provideL1", item)) for item in (_BLOCK, 5, {"number": 1})]
CLIENT, REFUSED = "RPC client", (JsonRpcError,)
TARGETS = {
    "rpc-request": FuzzTarget(CLIENT, request, one_of(_BODIES), REFUSED, JSON_TOKENS),
    "rpc-value-bound": FuzzTarget(CLIENT, value_bound, one_of(_BODIES), (orjson.JSONDecodeError,), JSON_TOKENS),
    "supervisor-request": FuzzTarget("supervisor", supervisor_request, one_of(_INTEROP_BODIES), REFUSED, JSON_TOKENS),
    "jwt": FuzzTarget(
        CLIENT,
        token,
        one_of([_signed_token({"alg": "HS256"}, {"iat": int(NOW)}), _signed_token({"alg": "none"}, {"iat": 1.5})]),
    ),
}
"""The targets by name."""
