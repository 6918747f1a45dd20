"""The engine's chain: building blocks, filling them from the pool, executing payloads, following heads."""

from random import Random

import msgspec
import pytest

from rollup_node.stages.protocol.payloads import payload_block_hash
from rollup_node.tools.devnet.engine.backend import payload_of
from rollup_node.tools.devnet.engine.execution import DaLimits, InvalidBlock
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
from tests.support.chains.l2_test_chain import L2TestChain


@pytest.mark.parametrize("field", ["state_root", "gas_used", "withdrawals_root"])
def test_a_payload_that_differs_from_its_execution_is_invalid(field: str) -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    payload = payload_of(l2.extend(l2.backend(), l2.transfer(0, 0)))
    value = getattr(payload, field)
    wrong = msgspec.structs.replace(payload, **{field: value + 1 if isinstance(value, int) else b"\x11" * 32})
    wrong = msgspec.structs.replace(wrong, block_hash=payload_block_hash(wrong))
    with pytest.raises(InvalidBlock, match=field):
        backend.check(backend.chain.head, wrong)


def test_a_built_block_keeps_the_limits_of_its_size() -> None:
    """A sender whose transaction is too large waits, and the block takes as many as fit."""
    l2 = L2TestChain()
    backend = l2.backend()
    large = l2.transfer(2, 0, data=Random(1).randbytes(1900), gas=200_000)
    for raw in (l2.transfer(0, 0), l2.transfer(0, 1), l2.transfer(1, 0), large):
        backend.send(raw)

    def included(limits: DaLimits) -> int:
        backend.da_limits = limits
        execution = backend.begin(backend.chain.head, l2.attributes(backend.chain.head.header, pool=True))
        backend.fill(execution)
        return len(execution.executed) - 1

    assert included(DaLimits()) == 4
    assert included(DaLimits(transaction=1_000)) == 3
    assert included(DaLimits(block=250)) == 2
    assert included(DaLimits(transaction=50)) == 0


def test_the_pool_refuses_invalid_transactions() -> None:
    l2 = L2TestChain()
    backend = l2.backend()
    l2.extend(backend, l2.transfer(0, 0))
    for raw, error in (
        (l2.transfer(0, 0), "nonce too low"),
        (b"\x02\xc0", "malformed"),
        (l2.deposit(b"\xee" * 20, b"\xdd" * 20), "type"),
    ):
        with pytest.raises(InvalidTransaction, match=error):
            backend.send(raw)
    backend.send(l2.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="already known"):
        backend.send(l2.transfer(0, 1))
    with pytest.raises(InvalidTransaction, match="underpriced"):
        backend.send(l2.transfer(0, 1, value=3))
