"""The execution engine of benchmarks: what it answers, and the times that it notes."""

import time
import urllib.request
from typing import Any

import orjson

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.sealed_blocks import genesis_payload
from rollup_node.tools.bench.timed_engine import EngineProcess


def call(url: str, method: str, *params: Any) -> Any:
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    with urllib.request.urlopen(url, body, timeout=10) as answer:
        return orjson.loads(answer.read())["result"]


def test_calls_are_answered_and_timed() -> None:
    genesis = genesis_payload(1_770_000_000)
    with EngineProcess(synthetic_chain.config(), genesis, 5) as engine:
        assert call(engine.url, "eth_getBlockByNumber", "latest", True)["hash"] == to_hex(genesis.block_hash)
        assert call(engine.url, "eth_getBlockByNumber", "safe", True) is None
        state = dict.fromkeys(("headBlockHash", "safeBlockHash", "finalizedBlockHash"), to_hex(genesis.block_hash))
        began = time.monotonic()
        answer = call(engine.url, "engine_forkchoiceUpdatedV3", state, None)
        assert answer["payloadStatus"]["status"] == "VALID" and answer["payloadId"] is None
        timed = engine.calls()[-1]
        assert (timed.method, timed.number, timed.builds) == ("engine_forkchoiceUpdated", 0, False)
        assert began < timed.arrived <= timed.answered < time.monotonic()
