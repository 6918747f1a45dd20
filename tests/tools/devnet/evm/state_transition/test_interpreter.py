"""The machine on small programs: gas to the unit, halts, depth, creations, static calls, forks."""

import pytest

from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.devnet.evm.call_frame import BlockContext, CallFrame, CallMessage, TransactionEnvironment
from rollup_node.tools.devnet.evm.rules import EvmRules
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.state_transition import forks
from rollup_node.tools.devnet.evm.state_transition.interpreter import execute

ME, CALLER, OTHER = b"\xaa" * 20, b"\xbb" * 20, b"\xcc" * 20


def run(
    code: str | bytes,
    *,
    data: bytes = b"",
    gas: int = 1_000_000,
    rules: EvmRules = forks.OSAKA,
    state: State | None = None,
    is_static: bool = False,
) -> CallFrame:
    """Runs code at ME; the account exists so that values can be sent."""
    state = state or State(StateDatabase())
    program = bytes.fromhex(code) if isinstance(code, str) else code
    if not state.is_alive(ME):
        state.set_nonce(ME, 1)
        state.set_code(ME, program)
    state.begin_transaction()
    block = BlockContext(7, 1000, OTHER, 30_000_000, 5, b"\x03" * 32, 10, lambda number: bytes([number]) * 32, 3)
    message = CallMessage(CALLER, ME, ME, program, 0, data, gas, is_static=is_static)
    return execute(TransactionEnvironment(state, rules, block, CALLER, 9, (b"\x01" * 32,)), message)


def word(frame: CallFrame) -> int:
    """What the program returned, as a number."""
    assert frame.succeeded, frame.error
    return int.from_bytes(frame.output, "big")


def answer(code: str) -> str:
    """The program, then its stack's top returned."""
    return code + "5f5260205ff3"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("60036005" + "03", 2),
        ("6000" + "6005" + "04", 0),
        ("5f19" + "5f19" + "05", 1),
        ("6003" + "5f19" + "07", (1 << 256) - 1),
        ("60076005600309", 1),
        ("61ffff" + "6000" + "0b", (1 << 256) - 1),
        ("60ff" + "601f" + "1a", 255),
        ("5f19" + "60ff" + "1d", (1 << 256) - 1),
        ("6001" + "61ffff" + "1b", 0),
        ("6001" + "1e", 255),
        ("5f" + "1e", 256),
        ("5f" + "5f" + "20", int.from_bytes(keccak256(b""), "big")),
        ("43", 7),
        ("600640", int.from_bytes(b"\x06" * 32, "big")),
        ("600740", 0),
        ("4a", 3),
        ("5f49", int.from_bytes(b"\x01" * 32, "big")),
        ("600149", 0),
        ("3a", 9),
        ("58", 0),
        ("59", 0),
    ],
)
def test_results(code: str, result: int) -> None:
    assert word(run(answer(code))) == result


def test_gas_is_exact() -> None:
    spent = 1_000_000 - run("6001600201" + "50" + "00").gas
    assert spent == 3 + 3 + 3 + 2
    assert word(run(answer("5a"), gas=1000)) == 998
    frame = run("60016000" + "55" + "60016000" + "55" + "5f6000" + "55")
    assert 1_000_000 - frame.gas == 4 * 3 + 22_100 + 100 + 2 + 3 + 100
    assert frame.state.refund == 19_900
    cold_then_warm = run("6000" + "54" + "6000" + "54")
    assert 1_000_000 - cold_then_warm.gas == 3 + 2100 + 3 + 100
    assert 1_000_000 - run("61ffff51").gas == 3 + 3 + 3 * 2049 + 2049 * 2049 // 512


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("01", "stack underflow"),
        ("0c", "invalid opcode 0x0c"),
        ("fe", "invalid opcode 0xfe"),
        ("600356", "invalid jump destination"),
        ("6005565b5b", "invalid jump destination"),
        ("60045660" + "5b", "invalid jump destination"),
        ("5b" + "5f" + "600056", "stack overflow"),
        ("7f" + "ff" * 32 + "51", "out of gas: memory"),
        ("60016000f3" + "00", ""),
        ("600160005f3e", "return data out of bounds"),
    ],
)
def test_faults_take_all_gas(code: str, error: str) -> None:
    frame = run(code)
    assert frame.error == error
    assert frame.succeeded == (error == "")
    if error:
        assert frame.gas == 0 and frame.output == b""


def test_a_loop_ends_by_gas_alone() -> None:
    frame = run("5b600056", gas=10_000)
    assert frame.error == "out of gas"


def test_later_opcodes_are_undefined_before_their_fork() -> None:
    for code, before, since in (
        ("5f", forks.PARIS, forks.SHANGHAI),
        ("60005c", forks.SHANGHAI, forks.CANCUN),
        ("60001e", forks.PRAGUE, forks.OSAKA),
    ):
        assert "invalid opcode" in run(code, rules=before).error
        assert run(code, rules=since).succeeded


def test_a_revert_gives_back_gas_and_data_and_undoes_the_rest() -> None:
    state = State(StateDatabase())
    frame = run("6001600055" + "602a5f52" + "60205ffd", state=state)
    assert not frame.succeeded and frame.error == "execution reverted"
    assert int.from_bytes(frame.output, "big") == 42 and 0 < frame.gas < 1_000_000
    assert state.storage(ME, 0) == 0 and state.refund == 0


@pytest.mark.parametrize("code", ["60016000" + "55", "60016000" + "5d", "5f5fa0", "5f5f5ff0", "5fff"])
def test_static_calls_change_nothing(code: str) -> None:
    assert run(code, is_static=True).error == "write protection"


def test_calls_nest_to_1024_and_no_deeper() -> None:
    # Each level calls itself with all gas it can pass on, and counts in transient storage how often that worked.
    code = "5f5f5f5f5f30" + "5a" + "f1" + "50" + "5f5c6001015f5d" + "00"
    state = State(StateDatabase())
    frame = run(code, gas=10**12, state=state)
    assert frame.succeeded and state.transient(ME, 0) == 1025


def creating(init: str) -> str:
    """A program that creates a contract from init code of at most 31 bytes."""
    size = len(init) // 2
    return f"{0x5F + size:02x}{init}5f52" + f"60{size:02x}60{32 - size:02x}5ff0"


def test_creation_and_its_failures() -> None:
    state = State(StateDatabase())
    leaves_one_byte = "60015f53" + "60015ff3"
    created = run(answer(creating(leaves_one_byte)), state=state).output[12:]
    assert created == keccak256(bytes.fromhex("d694" + ME.hex() + "01"))[12:]
    assert state.code(created) == b"\x01" and state.nonce(created) == 1 and state.nonce(ME) == 2
    leaves_reserved_byte = leaves_one_byte.replace("6001", "60ef", 1)
    other = State(StateDatabase())
    assert word(run(answer(creating(leaves_reserved_byte)), state=other)) == 0 and other.nonce(ME) == 2


def test_self_destruction_by_fork() -> None:
    for rules, gone in ((forks.SHANGHAI, True), (forks.CANCUN, False)):
        state = State(StateDatabase())
        state.add_balance(ME, 9)
        code = bytes.fromhex("73" + OTHER.hex() + "ff")
        state.set_code(ME, code)
        frame = run(code, state=state, rules=rules)
        state.end_transaction()
        assert frame.succeeded and state.balance(OTHER) == 9
        assert state.is_alive(ME) != gone


def test_delegated_code_is_followed_from_prague_on() -> None:
    state = State(StateDatabase())
    state.set_code(OTHER, bytes.fromhex("602a5f5260205ff3"))
    state.set_code(CALLER, b"\xef\x01\x00" + OTHER)
    code = "60205f5f5f73" + CALLER.hex() + "5afa505f515f5260205ff3"
    state.set_code(ME, bytes.fromhex(code))
    assert word(run(code, state=state, rules=forks.PRAGUE)) == 42
    assert word(run(code, state=state, rules=forks.CANCUN)) == 0


def test_precompiles_are_called_with_exact_gas() -> None:
    code = "5f5f5f5f" + "6002" + "61ffff" + "fa" + "00"
    assert 1_000_000 - run(code).gas == 4 * 2 + 3 + 3 + 2600 + 60
    too_little = "5f5f5f5f" + "6002" + "603b" + "fa"
    assert word(run(answer(too_little))) == 0
