"""Records what Ethereum's execution specs make of random programs, with which the EVM of the local network is compared.

    pip install ethereum-execution
    python -m rollup_node.tools.importers.evm_results

writes `tests/tools/devnet/evm/eels_results.json`. The same programs come from the same seed."""

import importlib
import json
import random
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm import forks
from rollup_node.tools.devnet.evm.rules import EvmRules

RULES = {rules.name: rules for rules in (forks.CANCUN, forks.PRAGUE, forks.OSAKA)}
RESULTS = Path(__file__).resolve().parents[2] / "tests" / "tools" / "devnet" / "evm" / "eels_results.json"
RECORDED = 300
ACCOUNTS = [bytes([0x11 * index]) * 20 for index in range(1, 6)]
PRECOMPILES = [number.to_bytes(20, "big") for number in (1, 2, 3, 4, 5, 9, 0x0B, 0x10)]
ORIGIN, COINBASE = b"\xaa" * 20, b"\xcc" * 20
CALLS, CREATES, LOGS = [0xF1, 0xF2, 0xF4, 0xFA], [0xF0, 0xF5], [0xA0, 0xA1, 0xA2]
PLAIN = [*range(0x0C), *range(0x10, 0x1F), 0x20, *range(0x30, 0x40), *range(0x41, 0x4B), *range(0x50, 0x60)]
OPCODES = [
    *PLAIN * 2,
    *[0x54, 0x55, 0x5C, 0x5D] * 4,
    *range(0x80, 0x88),
    *range(0x90, 0x96),
    *[*LOGS, *CREATES, *CALLS] * 3,
    *[0xF3, 0xFD, 0xFF, 0xFE],
]
OPERANDS = [
    bytes.fromhex("3032333436383a3d414243444546474858595a5f"),
    bytes.fromhex("151931353b3f40495154545c1e"),
    bytes.fromhex("010203040506070a0b1011121314161718" + "1a1b1c1d" * 2 + "2052535555555da0"),
    bytes.fromhex("080937395ea1"),
    bytes.fromhex("3ca2"),
]
"""Instructions by the number of their operands."""
RESULTLESS = bytes.fromhex("525355373c395d5ea0a1a2")
OF_MEMORY, OF_SLOTS = bytes.fromhex("2051525337393c5ea0a1a2"), bytes.fromhex("54555c5d")
INIT_CODES = [
    bytes.fromhex(code) for code in ("60055ff3", "60ef5f5360015ff3", "30ff", "33ff", "5f5ffd", "5f5f55", "fe")
]


class EvmCase(NamedTuple):
    """Code, balance and storage of the accounts, and the call of the first."""

    codes: list[bytes]
    balances: list[int]
    slots: list[dict[int, int]]
    data: bytes
    value: int
    gas: int


class EvmResult(NamedTuple):
    """What a call left: `digest` is of its logs and the state root after it."""

    succeeded: bool
    gas: int
    refund: int
    digest: str


# --- programs --------------------------------------------------------------------------------------------------------


def push(number: int) -> bytes:
    """Return the instruction that pushes a number."""
    data = number.to_bytes(max(1, (number.bit_length() + 7) // 8), "big")
    return bytes((0x5F + len(data),)) + data


def word(chance: random.Random) -> int:
    """Return an operand: small, at a limit, an address, or any."""
    kind = chance.random()
    if kind < 0.35:
        return chance.randrange(64)
    if kind < 0.5:
        return chance.choice([31, 32, 33, 255, 256, 1 << 255, (1 << 256) - 1, 1 << 64, 1 << 160, 0])
    if kind < 0.75:
        return int.from_bytes(chance.choice(ACCOUNTS + PRECOMPILES), "big")
    return chance.randrange(1 << chance.choice([8, 16, 64, 256]))


def call_code(chance: random.Random) -> bytes:
    """Return a call of an account or a precompile."""
    opcode = chance.choice(CALLS)
    code = b"".join(push(chance.randrange(96)) for _ in range(4))
    if opcode in (0xF1, 0xF2):
        code += push(chance.choice([0, 0, 1, 5]))
    target = int.from_bytes(chance.choice(ACCOUNTS + PRECOMPILES), "big")
    return code + push(target) + push(chance.choice([0, 1000, 30_000, 10**6])) + bytes((opcode,))


def create_code(chance: random.Random) -> bytes:
    """Return a creation by what is in memory."""
    parts = [push(chance.randrange(40)), push(chance.randrange(40)), push(chance.choice([0, 0, 1]))]
    return b"".join(parts) + bytes((chance.choice(CREATES),))


def program(chance: random.Random) -> bytes:
    """Return instructions in any order, most of which end by an exception sooner or later."""
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


def orderly_chunk(chance: random.Random, at: int, rules: EvmRules) -> tuple[bytes, bool]:
    """Return instructions with their operands for the offset `at` of a program, and whether they leave a result."""
    kind, count = chance.random(), chance.choices(range(5), (2, 3, 6, 2, 1))[0]
    opcode = chance.choice(OPERANDS[count])
    if kind < 0.1 or (opcode == 0x1E and rules is not forks.OSAKA):
        return call_code(chance), True
    if kind < 0.14:
        init, create = chance.choice(INIT_CODES), chance.choice(CREATES)
        operands = [len(init), 0, chance.choice([0, 0, 1])]
        code = b"".join(map(push, [5, *operands] if create == 0xF5 else operands))
        return push(int.from_bytes(init.ljust(32, b"\0"))) + push(0) + b"\x52" + code + bytes((create,)), True
    if kind < 0.18:
        jump = push(chance.randrange(2)) + b"\x61" + (at + 8).to_bytes(2, "big") + bytes.fromhex("5758505b")
        return jump + b"\x61" + (at + 14).to_bytes(2, "big") + bytes.fromhex("56fe5b58"), True
    if kind < 0.22:
        operands = [word(chance) for _ in range(4)]
        opcode = chance.choice([0x80, 0x81, 0x83, 0x90, 0x92])
        return b"".join(map(push, operands)) + bytes((opcode, 0x03, 0x03, 0x03)), True
    small = 96 if opcode in OF_MEMORY else 4 if opcode in OF_SLOTS else 0
    operands = [chance.randrange(small) if small else word(chance) for _ in range(count)]
    return b"".join(map(push, operands)) + bytes((opcode,)), opcode not in RESULTLESS


def orderly_program(chance: random.Random, rules: EvmRules) -> bytes:
    """Return instructions that have their operands, whose results are in memory, which is logged and returned."""
    code = b""
    for index in range(chance.randrange(5, 40)):
        chunk, has_result = orderly_chunk(chance, len(code), rules)
        code += chunk + (push(32 * (index % 8)) + b"\x52" if has_result else b"")
    return code + (push(256) + push(0)) * 2 + bytes((0xA0, chance.choice([0xF3, 0xF3, 0xF3, 0xFD])))


def random_case(chance: random.Random, rules: EvmRules) -> EvmCase:
    """Return accounts with programs of one kind, and a call."""
    is_orderly = chance.random() < 0.6
    codes = [orderly_program(chance, rules) if is_orderly else program(chance) for _ in ACCOUNTS]
    if rules.delegations and chance.random() < 0.2:
        codes[3] = b"\xef\x01\x00" + ACCOUNTS[1]
    return EvmCase(
        codes=codes,
        balances=[chance.randrange(100) for _ in ACCOUNTS],
        slots=[{chance.randrange(4): chance.randrange(1, 4) for _ in range(2)} for _ in ACCOUNTS],
        data=chance.randbytes(chance.randrange(70)),
        value=chance.choice([0, 0, 7]),
        gas=chance.choice([100_000, *[2_000_000] * 3] if is_orderly else [30_000, 100_000, 2_000_000]),
    )


# --- results -------------------------------------------------------------------------------------------------------


def digest(logs: list[tuple[bytes, tuple[bytes, ...], bytes]], root: bytes) -> str:
    """Return the digest of logs and a state root."""
    return keccak256(repr((logs, root)).encode()).hex()[:16]


class Specs:
    """The execution specs of a fork."""

    def __init__(self, rules: EvmRules) -> None:
        self.rules = rules
        self.states, self.vm, self.interpreter, kinds = (
            importlib.import_module(f"ethereum.forks.{rules.name}.{name}")
            for name in ("state", "vm", "vm.interpreter", "fork_types")
        )
        self.n: Any = importlib.import_module("ethereum_types.numeric")
        self.d: Any = importlib.import_module("ethereum_types.bytes")
        self.address, self.account = kinds.Address, kinds.Account

    def result(self, case: EvmCase) -> EvmResult:
        """Run a case."""
        states, n, d = self.states, self.n, self.d
        state = states.State()
        self._put(state, ORIGIN, 10**18, b"")
        for address, code, balance, slots in zip(ACCOUNTS, case.codes, case.balances, case.slots, strict=True):
            self._put(state, address, balance, code)
            for slot, value in slots.items():
                states.set_storage(state, self.address(address), d.Bytes32(slot.to_bytes(32, "big")), n.U256(value))
        message = self._message(case, state)
        states.begin_transaction(state, message.tx_env.transient_storage)
        output = self.interpreter.process_message_call(message)
        states.commit_transaction(state, message.tx_env.transient_storage)
        for address in output.accounts_to_delete:
            states.destroy_account(state, address)
        succeeded = output.error is None
        logs = [(bytes(log.address), tuple(map(bytes, log.topics)), bytes(log.data)) for log in output.logs]
        refund = int(output.refund_counter) if succeeded else 0
        left = digest(logs if succeeded else [], bytes(states.state_root(state)))
        return EvmResult(succeeded, int(output.gas_left), refund, left)

    def _put(self, state: Any, address: bytes, balance: int, code: bytes) -> None:
        account = self.account(self.n.Uint(1), self.n.U256(balance), self.d.Bytes(code))
        self.states.set_account(state, self.address(address), account)

    def _message(self, case: EvmCase, state: Any) -> Any:
        n, d, address = self.n, self.d, self.address
        block = self.vm.BlockEnvironment(
            chain_id=n.U64(10),
            state=state,
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
        transaction = self.vm.TransactionEnvironment(
            origin=address(ORIGIN),
            gas_price=n.Uint(9),
            gas=n.Uint(case.gas),
            access_list_addresses=set(),
            access_list_storage_keys=set(),
            transient_storage=self.states.TransientStorage(),
            blob_versioned_hashes=(),
            index_in_block=n.Uint(0),
            tx_hash=None,
            **({"authorizations": ()} if self.rules.delegations else {}),
        )
        warm = self.rules.warm_addresses() | {ORIGIN, COINBASE, ACCOUNTS[0]}
        return self.vm.Message(
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
            accessed_addresses=set(map(address, warm)),
            accessed_storage_keys=set(),
            parent_evm=None,
            **({"disable_precompiles": False} if self.rules.delegations else {}),
        )


def hash_of(cases: list[EvmCase]) -> str:
    """Return the hash by which a file of results names its programs."""
    return keccak256(repr(cases).encode()).hex()


def recorded_cases(rules: EvmRules) -> list[EvmCase]:
    """Return the cases of a fork whose results are recorded."""
    chance = random.Random(f"recorded {rules.name}")
    return [random_case(chance, rules) for _ in range(RECORDED)]


def main() -> None:
    """Write the results of the specs."""
    results = {}
    for fork, rules in RULES.items():
        cases, specs = recorded_cases(rules), Specs(rules)
        results[fork] = {"programs": hash_of(cases), "results": [specs.result(case) for case in cases]}
    RESULTS.write_text(json.dumps(results, separators=(",", ":")).replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
