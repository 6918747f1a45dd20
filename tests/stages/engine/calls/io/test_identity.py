"""An engine is asked who it is, and for its chain config [ENG41, ENG42]."""

import asyncio
from typing import Any

import pytest

from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.io.identity import OWN_VERSION, chain_config, engine_identity
from rollup_node.stages.io.http.jsonrpc import RpcFailure

VERSIONS = "engine_getClientVersionV1"
RETH = [{"code": "RH", "name": "OP-Reth", "version": "2.10.0", "commit": "0xdeadbeef"}]


class Engine:
    """Answers by method; a method without an answer does not exist."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[Any, ...]] = []

    async def call(self, shape: Any, method: str, *params: Any) -> Any:
        self.calls.append((method, *params))
        if method not in self.answers:
            raise RpcFailure(-32601, "the method does not exist")
        return self.answers[method]


def identity(engine: Engine) -> EngineIdentity | None:
    return asyncio.run(engine_identity(engine.call))


def test_the_engine_api_is_asked_first() -> None:
    engine = Engine(**{VERSIONS: RETH, "web3_clientVersion": "Geth/v1.0.0"})
    assert identity(engine) == EngineIdentity("OP-Reth", "2.10.0", "RH")
    assert engine.calls == [(VERSIONS, OWN_VERSION)]


@pytest.mark.parametrize("answer", [..., [], 7])
def test_the_web3_namespace_is_asked_where_the_engine_api_does_not_say(answer: Any) -> None:
    others = {} if answer is ... else {VERSIONS: answer}
    engine = Engine(**others, web3_clientVersion="Geth/v1.101702.3-stable/linux-amd64")
    assert identity(engine) == EngineIdentity("Geth", "1.101702.3-stable")
    assert identity(Engine(**others)) is None


def test_an_engine_that_reads_listed_codes_alone_says_who_it_is() -> None:
    """op-reth: `unknown variant RN, expected one of BU, EJ, EG, GE, ...`."""

    class Reth(Engine):
        async def call(self, shape: Any, method: str, *params: Any) -> Any:
            found = await super().call(shape, method, *params)
            if params[0]["code"] == OWN_VERSION["code"]:
                raise RpcFailure(-32602, "Invalid params")
            return found

    engine = Reth(**{VERSIONS: RETH})
    assert identity(engine) == EngineIdentity("OP-Reth", "2.10.0", "RH")
    assert [call[1]["name"] for call in engine.calls] == ["rollup-node", "rollup-node"]


def test_a_chain_config_is_an_object() -> None:
    assert asyncio.run(chain_config(Engine(debug_chainConfig={"lagoonTime": 7}).call)) == {"lagoonTime": 7}
    for engine in (Engine(), Engine(debug_chainConfig=[])):
        assert asyncio.run(chain_config(engine.call)) is None
