"""The engine process that follows a real source over HTTP: heads, problems, and a source that is lost and comes back
[FSR1 to FSR8]."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.rpc.responses import l1_ref, l2_ref
from rollup_node.tools.devnet.chain.jsonrpc_server import Listener
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode, follow
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.servers.http_listener import json_rpc_app
from tests.support.servers.loopback import free_port, own_address


@pytest.mark.option("l2.follow.source.rpc-timeout")
async def test_heads_follow_a_source_that_lies_is_lost_and_comes_back(tmp_path: Path) -> None:
    chain = chain_with(block_time=1, l1_step=1)
    engine = FakeExecutionEngine(chain)
    refs = follow(chain, engine, 20)

    def status(local_safe: L2BlockRef, safe: L2BlockRef, finalized: L2BlockRef) -> dict[str, Any]:
        heads = {"local_safe_l2": l2_ref(local_safe), "safe_l2": l2_ref(safe), "finalized_l2": l2_ref(finalized)}
        return {"current_l1": l1_ref(chain.l1_ref(104)), **heads}

    shown = [status(refs[12], refs[12], refs[4])]
    config = rollup_config_object(chain.rollup)
    app = json_rpc_app({"optimism_syncStatus": lambda: shown[0], "optimism_rollupConfig": lambda: config})
    source = Listener(app, free_port(), own_address())
    async with engine.serving():
        node = EngineNode(chain, engine, tmp_path, follow_url=source.url, follow_timeout=2.0)
        async with node.running():
            name = source.url.removeprefix("http://").strip("/")
            await node.until(lambda: node.has_problem(f"FOLLOW-UNREACHABLE: follow source: {name}: cannot connect"))
            assert _heads(node) == (20, 0, 0), "a node starts without its source"
            await source.start()
            await node.until(lambda: _heads(node) == (20, 12, 4) and node.health == ())
            await node.until(lambda: engine.safe == refs[12].hash and engine.finalized == refs[4].hash)
            assert node.status is not None and node.status.current_l1 == chain.l1_ref(104)

            shown[0] = status(refs[12], refs[14], refs[4])
            await node.until(
                lambda: node.has_problem("FOLLOW-SOURCE: follow source: the source's status is inconsistent: its safe")
            )
            shown[0] = status(refs[14], refs[14], refs[6])
            await node.until(lambda: _heads(node) == (20, 14, 6) and node.health == ())

            await source.stop()
            await node.until(lambda: node.has_problem(f"FOLLOW-UNREACHABLE: follow source: {name}: cannot connect"))
            assert _heads(node) == (20, 14, 6)
            again = Listener(app, source.port, source.host)
            shown[0] = status(refs[16], refs[15], refs[8])
            await again.start()
            await node.until(lambda: _heads(node) == (20, 15, 8) and node.health == ())
            assert node.status.local_safe == refs[16]
            assert b'follow_source_requests_total{result="error_invalid_state"}' in node.meter.text()
            await again.stop()


def _heads(node: EngineNode) -> tuple[int, int, int]:
    status = node.status
    if status is None or status.unsafe is None or status.safe is None or status.finalized is None:
        return (-1, -1, -1)
    return status.unsafe.number, status.safe.number, status.finalized.number
