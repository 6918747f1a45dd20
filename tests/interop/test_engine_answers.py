"""The table of what op-geth and op-reth answer, played to the engines themselves and to the embedded engine with the
differences of op-reth [ENG12 to ENG32, ATT47, ATT48]."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from rollup_node.stages.engine.calls.engine_api import (
    INVALID_ATTRIBUTES,
    EngineAnswer,
    EngineCall,
    ErrorAnswer,
    ForkchoiceAnswer,
    ForkchoiceUpdate,
    GetIdentity,
    GetPayload,
    NewPayload,
    PayloadAnswer,
)
from rollup_node.stages.engine.calls.engine_identity import EngineIdentity
from rollup_node.stages.engine.calls.heads import Forkchoice
from rollup_node.stages.engine.process.engine_client import EngineClient
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.hex_encoding import from_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.types import ZERO_HASH
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.engine.engine_api import Trait
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.fork_offsets import fork_offsets
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from tests.support.chains.l2_test_chain import L2TestChain
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.engine.answer_table import (
    BUILT,
    CHAIN_ID,
    ENGINES,
    GAS_LIMIT,
    LEFT_OUT,
    OtherCase,
    TransactionCase,
    other_cases,
    transaction_cases,
)
from tests.support.foreign.engines import foreign_engine
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import EmbeddedEngine

SECRET = bytes(range(32))
START = 1_790_000_000
CALL_SECONDS = 40.0
"""op-reth fills its cache before its first answer."""
ROLLUP = msgspec.structs.replace(
    PLAIN_ROLLUP,
    l2_chain_id=CHAIN_ID,
    fork_times=dict.fromkeys(FORK_NAMES[1 : FORK_NAMES.index("jovian") + 1], 0),
)


class Engine(NamedTuple):
    """An engine whose head is `genesis`.

    It answers what one of the `columns` of the table says, in its own words if `is_embedded`."""

    auth: str
    genesis: Block
    columns: tuple[str, ...]
    is_embedded: bool

    def ask(self, *calls: EngineCall) -> list[EngineAnswer]:
        """Return the answers to calls that follow one another."""

        async def scene() -> list[EngineAnswer]:
            client = EngineClient(self.auth, SECRET, CALL_SECONDS, ROLLUP)
            try:
                return [await client.ask(call) for call in calls]
            finally:
                await client.close()

        return asyncio.run(scene())

    def build(self, attributes: PayloadAttributes) -> EngineAnswer:
        """Return the payload of the attributes on genesis, or the answer to the call that fails."""
        genesis = Forkchoice(self.genesis.hash, ZERO_HASH, ZERO_HASH)
        (started,) = self.ask(ForkchoiceUpdate(genesis, attributes))
        if not isinstance(started, ForkchoiceAnswer) or started.payload_id is None:
            return started
        return self.ask(GetPayload(started.payload_id, attributes.timestamp))[0]

    def check(self, engine_answer: EngineAnswer, expected: Iterable[ErrorAnswer | str | None]) -> None:
        """An error is one of those in the table."""
        assert isinstance(engine_answer, ErrorAnswer), engine_answer
        own_words = self.is_embedded and engine_answer.code == INVALID_ATTRIBUTES
        errors = [item for item in expected if isinstance(item, ErrorAnswer) and item.code == engine_answer.code]
        assert any(own_words or error.message in engine_answer.message for error in errors), engine_answer


@pytest.fixture(scope="module", params=["embedded", "embedded like op-reth", "op-geth", "op-reth"])
def engine(request: pytest.FixtureRequest, module_leftovers: Leftovers) -> Iterator[Engine]:
    folder: Path = module_leftovers.folder
    genesis, jwt = folder / "genesis.json", folder / "jwt.txt"
    genesis.write_text(json.dumps(l2_genesis(fork_offsets([]), START)))
    jwt.write_text(SECRET.hex())
    block = parse_genesis(genesis.read_bytes()).block
    if not request.param.startswith("embedded"):
        with foreign_engine(request.param, module_leftovers, genesis, jwt) as foreign:
            columns = tuple(name for name in ENGINES if name.removesuffix("-older") == request.param)
            yield Engine(foreign.auth, block, columns, False)
        return
    is_reth = request.param.endswith("op-reth")
    flags = [f"--like={trait}" for trait in (Trait.SKIP, Trait.LOST_BUILD) if is_reth]
    with EmbeddedEngine(module_leftovers, genesis, jwt, *flags) as program:
        yield Engine(program.auth, block, ("op-reth" if is_reth else "op-geth-older",), True)
        program.stop()


def attributes(engine: Engine, *transactions: bytes) -> PayloadAttributes:
    """Attributes of a derived block on genesis."""
    return L2TestChain("jovian").attributes(engine.genesis.header, *transactions, gas_limit=GAS_LIMIT)


def test_an_engine_of_others_says_who_it_is(engine: Engine) -> None:
    """[ENG41] op-reth refuses client codes that execution-apis does not list."""
    if engine.is_embedded:
        pytest.skip("the embedded engine does not say who it is")
    (result,) = engine.ask(GetIdentity())
    assert isinstance(result, EngineIdentity) and result.kind == engine.columns[0].removeprefix("op-")


@pytest.mark.parametrize("case", transaction_cases(), ids=lambda case: case.name)
def test_a_derived_transaction(case: TransactionCase, engine: Engine) -> None:
    value = attributes(engine, *case.before, case.raw)
    answers = [case.answers[name] for name in engine.columns]
    errors, (kind,) = [answer.error for answer in answers], {answer.kind for answer in answers}
    genesis = Forkchoice(engine.genesis.hash, ZERO_HASH, ZERO_HASH)
    (started,) = engine.ask(ForkchoiceUpdate(genesis, value))
    if kind == "start":
        engine.check(started, errors)
        return
    assert isinstance(started, ForkchoiceAnswer) and started.status == "VALID" and started.payload_id is not None
    (sealed,) = engine.ask(GetPayload(started.payload_id, value.timestamp))
    if kind == "seal":
        engine.check(sealed, errors)
        return
    assert isinstance(sealed, ExecutionPayload) and kind in (BUILT, LEFT_OUT)
    assert sealed.transactions == (value.transactions if kind == BUILT else value.transactions[:-1])
    (inserted,) = engine.ask(NewPayload(sealed))
    assert isinstance(inserted, PayloadAnswer) and inserted.status == "VALID", "a block without it is valid in itself"


CHANGES: dict[str, dict[str, Any]] = {
    "gasLimit": {},
    "eip1559Params": {"eip1559_params": None},
    "minBaseFee": {"min_base_fee": None},
    "parentBeaconBlockRoot": {"parent_beacon_root": None},
    "withdrawals": {"withdrawals": False},
}


@pytest.mark.parametrize("case", other_cases("attributes"), ids=lambda case: case.name)
def test_members_of_attributes(case: OtherCase, engine: Engine) -> None:
    if engine.is_embedded and "op-reth" in engine.columns:
        pytest.skip("no trait of the embedded engine changes its answers to members")
    value, name = attributes(engine), case.item.get("without")
    if name == "gasLimit":
        pytest.skip("the node's encoder always writes a gas limit")
    changes = {"timestamp": engine.genesis.header.timestamp} if name is None else CHANGES[name]
    result = engine.build(msgspec.structs.replace(value, **changes))
    engine.check(result, [case.answers[name] for name in engine.columns])


@pytest.mark.parametrize("case", other_cases("call"), ids=lambda case: case.name)
def test_other_calls(case: OtherCase, engine: Engine) -> None:
    expected, call = case.answers[engine.columns[0]], case.item["call"]
    if engine.is_embedded and "versions" in call:
        pytest.skip("the embedded engine does not have the method")
    first = engine.build(attributes(engine))
    assert isinstance(first, ExecutionPayload)
    head = first.block_hash
    engine.ask(NewPayload(first), ForkchoiceUpdate(Forkchoice(head, ZERO_HASH, ZERO_HASH)))
    if "versions" in call:
        assert (asyncio.run(signal(engine)) is not None) is (expected == "answered")
        return
    if "payload" in call:
        (result,) = engine.ask(GetPayload(from_hex(call["payload"]), first.timestamp))
        assert isinstance(expected, ErrorAnswer)
        engine.check(result, [expected])
        return
    names = {"unknown": b"\x09" * 32, "zero": ZERO_HASH, "head": head, "ancestor": engine.genesis.hash}
    (result,) = engine.ask(ForkchoiceUpdate(Forkchoice(*(names[item] for item in call["forkchoice"]))))
    if isinstance(expected, ErrorAnswer):
        assert isinstance(result, ErrorAnswer) and result.code == expected.code, result
    else:
        assert isinstance(result, ForkchoiceAnswer) and result.status == expected, result


async def signal(engine: Engine) -> bytes | None:
    client = EngineClient(engine.auth, SECRET, CALL_SECONDS, ROLLUP)
    try:
        return await client.signal_versions(b"\x01" * 32, b"\x01" * 32)
    finally:
        await client.close()
