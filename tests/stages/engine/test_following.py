"""The engine process that follows a real source over HTTP: heads, problems, and a source that is lost and comes back
[FSR1 to FSR8]."""

from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.protocol.config_json import rollup_config_object
from rollup_node.stages.protocol.types import L2BlockRef
from rollup_node.stages.rpc.responses import l1_ref, l2_ref
from rollup_node.tools.devnet.chain.jsonrpc_server import Listener
from tests.stages.engine.conftest import Play
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode, chain_clock, follow
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.servers.http_listener import Methods, json_rpc_app, listening
from tests.support.servers.loopback import free_port, own_address


@pytest.mark.option("l2.follow.source.rpc-timeout")
def test_heads_follow_a_source_that_lies_is_lost_and_comes_back(play: Play, tmp_path: Path) -> None:
    chain = chain_with(block_time=1, l1_step=1)
    engine = FakeExecutionEngine(chain)
    refs = follow(chain, engine, 20)

    def status(local_safe: L2BlockRef, safe: L2BlockRef, finalized: L2BlockRef) -> dict[str, Any]:
        heads = {"local_safe_l2": l2_ref(local_safe), "safe_l2": l2_ref(safe), "finalized_l2": l2_ref(finalized)}
        return {"current_l1": l1_ref(chain.l1_ref(104)), **heads}

    shown = [status(refs[12], refs[12], refs[4])]
    app = json_rpc_app(
        {"optimism_syncStatus": lambda: shown[0], "optimism_rollupConfig": lambda: rollup_config_object(chain.rollup)}
    )

    async def scene() -> None:
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
                    lambda: node.has_problem(
                        "FOLLOW-SOURCE: follow source: the source's status is inconsistent: its safe"
                    )
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

    play(scene())


def test_a_sequencer_goes_on_without_a_block_that_no_engine_has_and_signs_on_what_replaces_ours(
    play: Play, tmp_path: Path
) -> None:
    """[FSR3, FSR11] The source's word alone shows the signer nothing that is derived; a block that the engine has taken
    in the place of ours does."""
    chain = chain_with(block_time=1)
    engine = FakeExecutionEngine(chain)
    refs = follow(chain, engine, 3)
    shown = [refs[2]]

    def status() -> dict[str, Any]:
        heads = {name: l2_ref(shown[0]) for name in ("local_safe_l2", "safe_l2")}
        return {"current_l1": l1_ref(None), "finalized_l2": l2_ref(refs[1]), **heads}

    methods: Methods = {
        "optimism_syncStatus": status,
        "optimism_rollupConfig": lambda: rollup_config_object(chain.rollup),
    }
    other = chain.ref(chain.seal(refs[2], chain.attributes(refs[2], refs[2].l1_origin.number, [chain.user])))
    engine.lost.add(other.hash)

    async def scene() -> None:
        async with engine.serving(), listening(json_rpc_app(methods)) as (url,):
            config: dict[str, Any] = {
                "follow_url": url,
                "p2p": True,
                "sequencer_enabled": True,
                "sequencer_l1_confs": 0,
            }
            node = EngineNode(chain, engine, tmp_path, clock=chain_clock(), **config)
            async with node.running():
                await node.until(lambda: _heads(node)[1:] == (2, 1))
                await node.until(lambda: node.unsafe >= 5)
                shown[0] = other
                missing = (
                    f"EL-SYNC-STALLED: the execution engine does not get the follow source's local safe head {other}"
                )
                await node.until(lambda: node.has_problem(missing))
                tip = node.unsafe
                await node.until(lambda: node.unsafe > tip + 1)
                assert {each.derived for each in node.published} == {0} and _heads(node)[1:] == (2, 1)
                engine.fetch()
                await node.until(lambda: _heads(node)[1:] == (3, 1) and node.health == ())
                await node.until(lambda: any(each.derived == 3 for each in node.published))
                first = next(each for each in node.published if each.derived)
                assert first.parent == other and first.payload.block_number == 4
                await node.until(lambda: node.unsafe > tip + 3)
                assert {each.derived for each in node.published[node.published.index(first) :]} == {3}

    play(scene())


def _heads(node: EngineNode) -> tuple[int, int, int]:
    found = node.status
    if found is None or found.unsafe is None or found.safe is None or found.finalized is None:
        return (-1, -1, -1)
    return found.unsafe.number, found.safe.number, found.finalized.number
