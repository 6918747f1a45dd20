"""Random programs compared with what Ethereum's execution specs make of them (tools/importers/evm_results.py).

Where the specs are installed, ROLLUP_NODE_EELS_PROGRAMS other programs per fork run on both."""

import json
import os
import random

import pytest

from rollup_node.tools.devnet.evm.call_frame import BlockContext, CallMessage, TransactionEnvironment
from rollup_node.tools.devnet.evm.interpreter import execute
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.importers.evm_results import (
    ACCOUNTS,
    COINBASE,
    ORIGIN,
    RECORDED,
    RESULTS,
    RULES,
    EvmCase,
    EvmResult,
    Specs,
    digest,
    hash_of,
    random_case,
    recorded_cases,
)

PROGRAMS = int(os.environ.get("ROLLUP_NODE_EELS_PROGRAMS", "150"))


def our_result(case: EvmCase, rules: EvmRules) -> EvmResult:
    state = State(StateDatabase())
    state.add_balance(ORIGIN, 10**18)
    state.set_nonce(ORIGIN, 1)
    for address, code, balance, slots in zip(ACCOUNTS, case.codes, case.balances, case.slots, strict=True):
        state.set_nonce(address, 1)
        state.set_code(address, code)
        state.add_balance(address, balance)
        for slot, value in slots.items():
            state.set_storage(address, slot, value)
    state.commit()
    state.begin_transaction()
    state.preload(rules.warm_addresses() | {ORIGIN, COINBASE, ACCOUNTS[0]})
    hashes = {0: b"\x01" * 32, 1: b"\x02" * 32}
    block = BlockContext(2, 1000, COINBASE, 60_000_000, 7, b"\x03" * 32, 10, hashes.__getitem__, 1)
    message = CallMessage(ORIGIN, ACCOUNTS[0], ACCOUNTS[0], case.codes[0], case.value, case.data, case.gas)
    frame = execute(TransactionEnvironment(state, rules, block, ORIGIN, 9), message)
    logs = [(log.address, log.topics, log.data) for log in state.logs] if frame.succeeded else []
    refund = state.refund if frame.succeeded else 0
    state.end_transaction()
    return EvmResult(frame.succeeded, frame.gas, refund, digest(logs, state.commit()))


@pytest.mark.parametrize("fork", RULES)
def test_programs_have_the_recorded_results(fork: str) -> None:
    cases, recorded = recorded_cases(RULES[fork]), json.loads(RESULTS.read_text())[fork]
    assert hash_of(cases) == recorded["programs"], "the results are those of other programs"
    results = [our_result(case, RULES[fork]) for case in cases]
    assert [(number, list(result)) for number, result in enumerate(results)] == list(enumerate(recorded["results"]))
    assert sum(result.succeeded for result in results) > RECORDED // 4


@pytest.mark.parametrize("fork", RULES)
def test_random_programs_have_the_result_of_the_specs(fork: str) -> None:
    pytest.importorskip("ethereum.forks", reason="the execution specs (ethereum-execution) are not installed")
    chance, rules, specs = random.Random(f"{fork} {PROGRAMS}"), RULES[fork], Specs(RULES[fork])
    for number in range(PROGRAMS):
        case = random_case(chance, rules)
        assert our_result(case, rules) == specs.result(case), (number, case)
