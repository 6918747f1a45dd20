"""Random programs compared with Ethereum's execution specs (`pip install ethereum-execution`), where these are
installed. ROLLUP_NODE_EELS_PROGRAMS is the number of programs per fork."""

import importlib
import os
import random
from typing import Any, NamedTuple

import pytest

from rollup_node.tools.devnet.evm.call_frame import BlockContext, CallFrame, CallMessage, TransactionEnvironment
from rollup_node.tools.devnet.evm.instructions.system import delegation_target
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks
from rollup_node.tools.devnet.evm.state_transition.interpreter import execute

PROGRAMS = int(os.environ.get("ROLLUP_NODE_EELS_PROGRAMS", "150"))
ACCOUNTS = [bytes([0x11 * index]) * 20 for index in range(1, 6)]
PRECOMPILES = [number.to_bytes(20, "big") for number in (1, 2, 3, 4, 5, 9, 0x0B, 0x10)]
ORIGIN, COINBASE = b"\xaa" * 20, b"\xcc" * 20
CALLS, CREATES, LOGS = [0xF1, 0xF2, 0xF4, 0xFA], [0xF0, 0xF5], [0xA0, 0xA1, 0xA2]
PLAIN = [
    *range(0x0C),
    *range(0x10, 0x1F),
    *range(0x20, 0x21),
    *range(0x30, 0x40),
    *range(0x41, 0x4B),
    *range(0x50, 0x60),
]
OPCODES = [
    *PLAIN * 2,
    *[0x54, 0x55, 0x5C, 0x5D] * 4,
    *range(0x80, 0x88),
    *range(0x90, 0x96),
    *[*LOGS, *CREATES, *CALLS] * 3,
]
OPCODES += [0xF3, 0xFD, 0xFF, 0xFE]


class EvmCase(NamedTuple):
    """Code, balance and storage of the accounts, and the call of the first."""

    codes: list[bytes]
    balances: list[int]
    slots: list[dict[int, int]]
    data: bytes
    value: int
    gas: int


def push(number: int) -> bytes:
    data = number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")
    return bytes((0x5F + len(data),)) + data


def word(chance: random.Random) -> int:
    kind = chance.random()
    if kind < 0.35:
        return chance.randrange(64)
    if kind < 0.5:
        return chance.choice([31, 32, 33, 255, 256, 1 << 255, (1 << 256) - 1, 1 << 64, 1 << 160, 0])
    if kind < 0.75:
        return int.from_bytes(chance.choice(ACCOUNTS + PRECOMPILES), "big")
    return chance.randrange(1 << chance.choice([8, 16, 64, 256]))


def call_code(chance: random.Random) -> bytes:
    opcode = chance.choice(CALLS)
    code = b"".join(push(chance.randrange(96)) for _ in range(4))
    if opcode in (0xF1, 0xF2):
        code += push(chance.choice([0, 0, 1, 5]))
    target = int.from_bytes(chance.choice(ACCOUNTS + PRECOMPILES), "big")
    return code + push(target) + push(chance.choice([0, 1000, 30_000, 10**6])) + bytes((opcode,))


def create_code(chance: random.Random) -> bytes:
    parts = [push(chance.randrange(40)), push(chance.randrange(40)), push(chance.choice([0, 0, 1]))]
    return b"".join(parts) + bytes((chance.choice(CREATES),))


def program(chance: random.Random) -> bytes:
    code = b""
    for _ in range(chance.randrange(5, 60)):
        kind = chance.random()
        if kind < 0.45:
            code += push(word(chance))
        elif kind < 0.52:
            code += call_code(chance)
        elif kind < 0.55:
            code += create_code(chance)
        elif kind < 0.62:
            code += push(chance.randrange(4)) + push(chance.randrange(3)) + b"\x55"
        elif kind < 0.66:
            code += b"\x5b"
        elif kind < 0.69:
            code += push(chance.randrange(2)) + push(len(code) + 8) + b"\x57"
        else:
            code += bytes((chance.choice(OPCODES),))
    return code


def random_case(chance: random.Random, rules: EvmRules) -> EvmCase:
    codes = [program(chance) for _ in ACCOUNTS]
    if rules.delegations and chance.random() < 0.2:
        codes[3] = b"\xef\x01\x00" + ACCOUNTS[1]
    return EvmCase(
        codes=codes,
        balances=[chance.randrange(100) for _ in ACCOUNTS],
        slots=[{chance.randrange(4): chance.randrange(1, 4) for _ in range(2)} for _ in ACCOUNTS],
        data=chance.randbytes(chance.randrange(70)),
        value=chance.choice([0, 0, 7]),
        gas=chance.choice([30_000, 100_000, 2_000_000]),
    )


class OurRun:
    """A case run by our interpreter."""

    def __init__(self, case: EvmCase, rules: EvmRules) -> None:
        self.state = State(StateDatabase())
        self.state.add_balance(ORIGIN, 10**18)
        self.state.set_nonce(ORIGIN, 1)
        for address, code, balance, slots in zip(ACCOUNTS, case.codes, case.balances, case.slots, strict=True):
            self.state.set_nonce(address, 1)
            self.state.set_code(address, code)
            self.state.add_balance(address, balance)
            for slot, value in slots.items():
                self.state.set_storage(address, slot, value)
        self.state.commit()
        self.state.begin_transaction()
        self.state.preload(rules.warm_addresses() | {ORIGIN, COINBASE, ACCOUNTS[0]})
        hashes = {0: b"\x01" * 32, 1: b"\x02" * 32}
        block = BlockContext(2, 1000, COINBASE, 60_000_000, 7, b"\x03" * 32, 10, hashes.__getitem__)
        code, target = case.codes[0], ACCOUNTS[0]
        message = CallMessage(ORIGIN, target, target, code, case.value, case.data, case.gas)
        self.frame: CallFrame = execute(TransactionEnvironment(self.state, rules, block, ORIGIN, 9), message)


class SpecRun:
    """A case run by the execution specs."""

    def __init__(self, case: EvmCase, fork: str) -> None:
        base = f"ethereum.forks.{fork}"
        self.kinds: Any = importlib.import_module(f"{base}.fork_types")
        self.states: Any = importlib.import_module(f"{base}.state")
        vm: Any = importlib.import_module(f"{base}.vm")
        numbers: Any = importlib.import_module("ethereum_types.numeric")
        data: Any = importlib.import_module("ethereum_types.bytes")
        self.n, self.d = numbers, data
        self.state = self.states.State()
        self._account(ORIGIN, 1, 10**18, b"")
        for address, code, balance, slots in zip(ACCOUNTS, case.codes, case.balances, case.slots, strict=True):
            self._account(address, 1, balance, code)
            for slot, value in slots.items():
                key = data.Bytes32(slot.to_bytes(32, "big"))
                self.states.set_storage(self.state, self.kinds.Address(address), key, numbers.U256(value))
        message = self._message(case, vm, fork)
        self.states.begin_transaction(self.state, message.tx_env.transient_storage)
        interpreter: Any = importlib.import_module(f"{base}.vm.interpreter")
        self.output = interpreter.process_message_call(message)
        self.created = {bytes(address) for address in self.state.created_accounts}
        self.states.commit_transaction(self.state, message.tx_env.transient_storage)

    def _account(self, address: bytes, nonce: int, balance: int, code: bytes) -> None:
        account = self.kinds.Account(self.n.Uint(nonce), self.n.U256(balance), self.d.Bytes(code))
        self.states.set_account(self.state, self.kinds.Address(address), account)

    def _message(self, case: EvmCase, vm: Any, fork: str) -> Any:
        n, d, address = self.n, self.d, self.kinds.Address
        rules = getattr(forks, fork.upper())
        newer = {"authorizations": ()} if rules.delegations else {}
        block = vm.BlockEnvironment(
            chain_id=n.U64(10),
            state=self.state,
            block_gas_limit=n.Uint(60_000_000),
            block_hashes=[d.Bytes32(b"\x01" * 32), d.Bytes32(b"\x02" * 32)],
            coinbase=address(COINBASE),
            number=n.Uint(2),
            base_fee_per_gas=n.Uint(7),
            time=n.U256(1000),
            prev_randao=d.Bytes32(b"\x03" * 32),
            excess_blob_gas=n.U64(0),
            parent_beacon_block_root=d.Bytes32(b"\x04" * 32),
        )
        transaction = vm.TransactionEnvironment(
            origin=address(ORIGIN),
            gas_price=n.Uint(9),
            gas=n.Uint(case.gas),
            access_list_addresses=set(),
            access_list_storage_keys=set(),
            transient_storage=self.states.TransientStorage(),
            blob_versioned_hashes=(),
            index_in_block=n.Uint(0),
            tx_hash=None,
            **newer,
        )
        return vm.Message(
            block_env=block,
            tx_env=transaction,
            caller=address(ORIGIN),
            target=address(ACCOUNTS[0]),
            current_target=address(ACCOUNTS[0]),
            code_address=address(ACCOUNTS[0]),
            gas=n.Uint(case.gas),
            value=n.U256(case.value),
            data=d.Bytes(case.data),
            code=d.Bytes(case.codes[0]),
            depth=n.Uint(0),
            should_transfer_value=True,
            is_static=False,
            accessed_addresses={
                address(warm_address) for warm_address in rules.warm_addresses() | {ORIGIN, COINBASE, ACCOUNTS[0]}
            },
            accessed_storage_keys=set(),
            parent_evm=None,
            **({"disable_precompiles": False} if rules.delegations else {}),
        )

    def account(self, address: bytes) -> tuple[int, int, bytes]:
        result = self.states.get_account(self.state, self.kinds.Address(address))
        return int(result.nonce), int(result.balance), bytes(result.code)

    def slot(self, address: bytes, slot: int) -> int:
        key = self.d.Bytes32(slot.to_bytes(32, "big"))
        return int(self.states.get_storage(self.state, self.kinds.Address(address), key))


@pytest.mark.parametrize("fork", ["cancun", "prague", "osaka"])
def test_random_programs_have_the_result_of_the_specs(fork: str) -> None:
    pytest.importorskip("ethereum.forks", reason="the execution specs (ethereum-execution) are not installed")
    rules: EvmRules = getattr(forks, fork.upper())
    chance = random.Random(f"{fork} {PROGRAMS}")
    succeeded = 0
    for number in range(PROGRAMS):
        case = random_case(chance, rules)
        ours, theirs = OurRun(case, rules), SpecRun(case, fork)
        compare(f"{fork} program {number}", ours, theirs)
        succeeded += ours.frame.succeeded
    assert succeeded > PROGRAMS // 20


def compare(name: str, ours: OurRun, theirs: SpecRun) -> None:
    frame, state, output = ours.frame, ours.state, theirs.output
    assert frame.succeeded == (output.error is None), (name, frame.error, output.error)
    assert frame.gas == int(output.gas_left), name
    if frame.succeeded:
        assert state.refund == int(output.refund_counter), name
        logs = [(bytes(log.address), tuple(map(bytes, log.topics)), bytes(log.data)) for log in output.logs]
        assert [tuple(log) for log in state.logs] == logs, name
    destroyed = {bytes(address) for address in output.accounts_to_delete}
    for address in {*ACCOUNTS, *theirs.created} - destroyed:
        assert (state.nonce(address), state.balance(address), state.code(address)) == theirs.account(address), name
        assert all(state.storage(address, slot) == theirs.slot(address, slot) for slot in range(6)), name
    assert delegation_target(state.code(ACCOUNTS[3])) in (None, ACCOUNTS[1])
