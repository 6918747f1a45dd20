"""JSON-RPC over prepared results."""

from typing import Any

import orjson

from rollup_node.tools.bench.race.rpc_methods import RpcMethods


def methods() -> RpcMethods:
    return RpcMethods({"twice": lambda params: b"%d" % (2 * params[0])}, lambda name, params: f"{name} {len(params)}")


def respond(rpc: RpcMethods, body: bytes) -> Any:
    return orjson.loads(b"".join(rpc.respond(b"/", b"", body).parts))


def test_calls_batches_and_unknown_methods() -> None:
    rpc = methods()
    assert respond(rpc, b'{"id":"x","method":"twice","params":[4]}') == {"jsonrpc": "2.0", "id": "x", "result": 8}
    batch = respond(rpc, b'[{"id":1,"method":"twice","params":[1]},{"id":2,"method":"other"}]')
    assert batch[0] == {"jsonrpc": "2.0", "id": 1, "result": 2}
    assert (batch[1]["id"], batch[1]["error"]["code"]) == (2, -32601)
    assert rpc.requests == 2
    assert rpc.calls == {"twice 1": 2, "other 0": 1}
    assert rpc.sizes == {"twice 1": 2}


def test_a_body_that_is_no_json() -> None:
    assert methods().respond(b"/", b"", b"{").status == 400
