"""eth_call and eth_estimateGas on a state: results, estimates, and no change."""

import pytest

from rollup_node.stages.protocol.hex_encoding import HexError, to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.chain.simulation import CallRequest, call_from_json, estimate, simulate
from rollup_node.tools.devnet.evm.call_frame import BlockContext
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State
from rollup_node.tools.devnet.evm.transactions import InvalidTransaction
from rollup_node.tools.devnet.predeploys.alloc import TOKEN
from tests.support.chains.l2_test_chain import L2TestChain

MINT = keccak256(b"mint(uint256)")[:4] + (100).to_bytes(32, "big")
OWNER = L2TestChain().keys[0].address


@pytest.fixture
def chain() -> tuple[State, EvmRules, BlockContext]:
    backend = L2TestChain().backend()
    header = backend.chain.head.header
    context = BlockContext(1, header.timestamp, bytes(20), 30_000_000, 0, bytes(32), 901, lambda number: bytes(32))
    return State(backend.store, header.state_root), backend.evm_rules(header.timestamp), context


def test_call_objects() -> None:
    call = call_from_json({"from": to_hex(OWNER), "to": to_hex(TOKEN), "value": "0x5", "data": "0x01", "gas": "0x10"})
    assert call == CallRequest(OWNER, TOKEN, 5, b"\x01", 16)
    assert call_from_json({"input": "0x02", "data": "0x01"}) == CallRequest(bytes(20), None, 0, b"\x02", None)
    for malformed in ({"to": "0x12"}, {"value": "five"}, {"gas": "-1"}):
        with pytest.raises(HexError):
            call_from_json(malformed)


def test_a_simulated_call_changes_nothing(chain: tuple[State, EvmRules, BlockContext]) -> None:
    state, rules, context = chain
    result = simulate(state, rules, context, CallRequest(OWNER, TOKEN, 0, MINT, None), 200_000)
    assert result.succeeded and result.logs
    assert state.storage(TOKEN, 0) == 0
    assert state.nonce(OWNER) == 0


def test_calls_that_cannot_start(chain: tuple[State, EvmRules, BlockContext]) -> None:
    state, rules, context = chain
    with pytest.raises(InvalidTransaction, match="intrinsic gas too low"):
        simulate(state, rules, context, CallRequest(OWNER, TOKEN, 0, b"", None), 20_999)
    with pytest.raises(InvalidTransaction, match="insufficient funds"):
        simulate(state, rules, context, CallRequest(b"\x22" * 20, TOKEN, 1, b"", None), 100_000)


def test_an_estimate_is_the_lowest_gas_limit_to_within_64(chain: tuple[State, EvmRules, BlockContext]) -> None:
    state, rules, context = chain
    call = CallRequest(OWNER, TOKEN, 0, MINT, None)
    gas = estimate(state, rules, context, call, 1_000_000).gas_used
    assert simulate(state, rules, context, call, gas).succeeded
    assert not simulate(state, rules, context, call, gas - 65).succeeded
    assert estimate(state, rules, context, CallRequest(OWNER, b"\x11" * 20, 1, b"", None), 1_000_000).gas_used == 21_000


def test_the_estimate_of_a_failing_call_fails(chain: tuple[State, EvmRules, BlockContext]) -> None:
    state, rules, context = chain
    transfer = keccak256(b"transfer(address,uint256)")[:4] + bytes(31) + b"\x01" + (5).to_bytes(32, "big")
    result = estimate(state, rules, context, CallRequest(OWNER, TOKEN, 0, transfer, None), 1_000_000)
    assert not result.succeeded and result.error == "execution reverted"
