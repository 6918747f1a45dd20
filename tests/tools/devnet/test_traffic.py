"""Transfers and deposits on an embedded L1 and engine."""

from rollup_node.stages.protocol.deposits import DepositTransaction, deposit_from_log
from rollup_node.stages.protocol.types import Log
from rollup_node.tools.devnet.files import PORTAL
from rollup_node.tools.devnet.traffic import deposit_call


def test_deposit_call_is_a_deposit_log() -> None:
    data = deposit_call(b"\x01" * 20, b"\x02" * 20, mint=3, value=4, gas=50_000, data=b"hello")
    log = Log(PORTAL, tuple(data[at : at + 32] for at in range(0, 128, 32)), data[128:], 0)
    deposit = deposit_from_log(log, bytes(32))
    assert isinstance(deposit, DepositTransaction)
    assert (deposit.sender, deposit.to, deposit.mint, deposit.value) == (b"\x01" * 20, b"\x02" * 20, 3, 4)
    assert (deposit.gas, deposit.data) == (50_000, b"hello")
