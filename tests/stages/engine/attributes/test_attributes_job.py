"""What a job of derived attributes asks the engine for, and how it is called."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.attributes.attributes_job import (
    LOST_BUILDS,
    BuildProbe,
    may_lack_gas,
)
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer
from rollup_node.stages.protocol.deposits import DepositTransaction, encode_deposit
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from rollup_node.stages.protocol.transactions import encode_transaction
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.chains.signed_transactions import unsigned_transaction
from tests.support.engine.attributes_jobs import BUILD, asked, derived, started, step_through

LIMIT = 1_000_000
DEPOSIT = encode_deposit(DepositTransaction(bytes(32), bytes(20), bytes(20), 0, 0, 100_000, False, b""))
DEPOSIT_USES = 40_000


def user(gas: int) -> bytes:
    return encode_transaction(msgspec.structs.replace(unsigned_transaction(2, 901), gas=gas, r=1, s=1))


def attributes(*gas: int) -> PayloadAttributes:
    transactions = (DEPOSIT, *map(user, gas))
    return PayloadAttributes(1_000, bytes(32), bytes(20), True, bytes(32), transactions, True, LIMIT, bytes(8), 0)


def run(probe: BuildProbe, gas: list[tuple[int, int]]) -> int:
    """Answers a probe as an engine for which each transaction has a limit and uses some of it; the builds it took."""
    builds = 0
    while not probe.done:
        builds += 1
        used, fits = DEPOSIT_USES, True
        for limit, uses in gas[: len(probe.attributes.transactions) - 1]:
            fits = fits and limit <= LIMIT - used
            used += uses
        probe.built(used) if fits else probe.lost()
    return builds


@given(st.lists(st.tuples(st.integers(21_000, 600_000), st.integers(1, 100)), min_size=1, max_size=40))
def test_the_transaction_that_wants_more_than_is_left_is_found(parts: list[tuple[int, int]]) -> None:
    gas = [(limit, max(1, limit * percent // 100)) for limit, percent in parts]
    probe = BuildProbe(attributes(*(limit for limit, _ in gas)))
    assert run(probe, gas) <= len(gas).bit_length() + 1
    left, expected = LIMIT - DEPOSIT_USES, None
    for index, (limit, uses) in enumerate(gas, 1):
        if limit > left:
            expected = f"transaction {index} has a gas limit of {limit}, and those before it leave {left}"
            break
        left -= uses
    assert probe.proof() == expected
    assert expected is None or may_lack_gas(attributes(*(limit for limit, _ in gas)))


def test_an_engine_that_builds_nothing_proves_nothing() -> None:
    probe = BuildProbe(attributes(LIMIT))
    while not probe.done:
        probe.lost()
    assert probe.proof() is None


def test_only_blocks_that_may_lack_gas_are_asked_about() -> None:
    assert not may_lack_gas(attributes(400_000, 500_000))
    assert may_lack_gas(attributes(400_000, 500_001)), "with the deposit's 100,000"
    unknown = msgspec.structs.replace(attributes(LIMIT), transactions=(b"\x7d\xc0", b"\x7e\xc0", b""))
    assert not may_lack_gas(unknown)


# --- in the handler ------------------------------------------------------------------------------------------------


def lose_build(handler: AttributesHandler) -> None:
    """The engine begins to build, and does not return the block."""
    step_through(handler, BUILD)
    with pytest.raises(TemporaryError, match="does not return it"):
        step_through(handler, ErrorAnswer(-38001, "Unknown payload"))
    assert handler.check() is None


def probing(chain: ChainFixture) -> AttributesHandler:
    """Return a handler whose engine has lost two builds of a block of three transactions that want too much gas
    together."""
    handler = started(chain, chain.genesis, chain.genesis)
    message = derived(chain, chain.genesis)
    transactions = (message.attributes.transactions[0], *map(user, (14_000_000, 14_000_001, 14_000_002)))
    changed = msgspec.structs.replace(message.attributes, transactions=transactions)
    handler.offer(msgspec.structs.replace(message, attributes=changed))
    assert handler.check() is None
    for _ in range(LOST_BUILDS):
        lose_build(handler)
    return handler


def answer_prefix(chain: ChainFixture, handler: AttributesHandler, **changes: Any) -> None:
    """The engine builds what it is asked for."""
    sealed = chain.seal(chain.genesis, asked(handler))
    step_through(handler, BUILD)
    step_through(handler, msgspec.structs.replace(sealed, **changes))


def test_without_a_proof_the_block_is_built_again(chain: ChainFixture) -> None:
    handler = probing(chain)
    answer_prefix(chain, handler, gas_used=50_000)
    answer_prefix(chain, handler, gas_used=90_000)
    assert handler.check() is None
    assert len(asked(handler).transactions) == 4
    for _ in range(3):
        lose_build(handler)
        assert len(asked(handler).transactions) == 4, "it is not asked a second time"
