"""What programs do. Gas and results are compared in test_eels_differential; here is what it does not see."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.tools.devnet.evm import forks, instruction_table
from rollup_node.tools.devnet.evm.call_frame import (
    SYSTEM_ADDRESS,
    TRANSFER,
    BlockContext,
    CallFrame,
    CallMessage,
    CodeAnalysis,
    ExceptionalHalt,
    TransactionEnvironment,
)
from rollup_node.tools.devnet.evm.forks import at
from rollup_node.tools.devnet.evm.interpreter import execute
from rollup_node.tools.devnet.evm.rules import (
    BLOB_GAS,
    BlobRules,
    EvmRules,
    blob_fee,
    next_base_fee,
    next_excess_blob_gas,
)
from rollup_node.tools.devnet.evm.state import State, StateDatabase
from rollup_node.tools.devnet.evm.system_instructions import created_address

CONTRACT, CALLER, OTHER = b"\xaa" * 20, b"\xbb" * 20, b"\xcc" * 20
GAS = 1_000_000
MAX_WORD = (1 << 256) - 1
RETURN_TOP = "5f5260205ff3"
"""Returns the top of the stack: PUSH0 MSTORE PUSH1 32 PUSH0 RETURN."""


def run_code(
    code: str, *, gas: int = GAS, value: int = 0, rules: EvmRules = forks.OSAKA, state: State | None = None
) -> CallFrame:
    """Run code at CONTRACT, called by CALLER in block 7 of slot 84 at time 1000; the finished frame."""
    state, program = state or State(StateDatabase()), bytes.fromhex(code)
    if not state.is_alive(CONTRACT):
        state.set_nonce(CONTRACT, 1)
        state.set_code(CONTRACT, program)
    state.begin_transaction()
    block = BlockContext(7, 1000, OTHER, 30_000_000, 5, b"\x03" * 32, 10, lambda number: bytes([number]) * 32, 3, 84)
    message = CallMessage(CALLER, CONTRACT, CONTRACT, program, value, b"", gas)
    return execute(TransactionEnvironment(state, rules, block, CALLER, 9, (b"\x01" * 32,)), message)


def result_of(code: str, **options: object) -> int:
    """Return the top of the stack after a program."""
    frame = run_code(code + RETURN_TOP, **options)  # type: ignore[arg-type]
    assert frame.succeeded, frame.error
    return int.from_bytes(frame.output, "big")


def analysis(code: str) -> CodeAnalysis:
    return instruction_table.OSAKA.analyse(bytes.fromhex(code))


def test_decoded_blocks_are_kept() -> None:
    result = analysis("6001" + "00")
    assert result.blocks == {} or 0 in result.blocks
    block = result.block_at(0)
    assert result.blocks[0] is block


def test_push_data_is_no_instruction() -> None:
    assert analysis("60" + "5b" + "5b").jump_destinations == {2}
    assert analysis("7f" + "5b" * 32 + "5b").jump_destinations == {33}
    assert analysis("6001").jump_destinations == frozenset()


def test_a_push_at_the_end_is_zero_padded() -> None:
    assert analysis("61ff").block_at(0).steps == ((None, 0xFF00),)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("01", "stack underflow"),
        ("0c", "invalid opcode 0x0c"),
        ("fe", "invalid opcode 0xfe"),
        ("600356", "invalid jump destination"),
        ("5b" + "5f" + "600056", "stack overflow"),
        ("7f" + "ff" * 32 + "51", "out of gas: memory"),
        ("600160005f3e", "return data out of bounds"),
        ("5b600056", "out of gas"),
    ],
)
def test_an_exceptional_halt_consumes_all_gas(code: str, error: str) -> None:
    frame = run_code(code)
    assert (frame.error, frame.succeeded, frame.gas, frame.output) == (error, False, 0, b"")


def test_opcodes_are_undefined_before_their_fork() -> None:
    for code, before, since in (
        ("5f", forks.PARIS, forks.SHANGHAI),
        ("60005c", forks.SHANGHAI, forks.CANCUN),
        ("60001e", forks.PRAGUE, forks.OSAKA),
        ("4b", forks.BPO2, forks.AMSTERDAM),
    ):
        assert "invalid opcode" in run_code(code, rules=before).error
        assert run_code(code, rules=since).succeeded


@pytest.mark.parametrize(("bits", "results"), [("00ff", (1 << 255, 1, MAX_WORD)), ("0100", (0, 0, MAX_WORD))])
def test_shifts_of_the_whole_word(bits: str, results: tuple[int, int, int]) -> None:
    for opcode, value, result in zip(("1b", "1c", "1d"), (1, MAX_WORD, MAX_WORD), results, strict=True):
        assert result_of(f"7f{value:064x}61{bits}{opcode}") == result, opcode


def test_sstore_needs_more_gas_than_the_stipend() -> None:
    assert "call stipend" in run_code("60015f55", gas=2305).error
    assert run_code("60015f55", gas=2306).error == "out of gas"


def test_the_slot_number() -> None:
    assert result_of("4b", rules=forks.AMSTERDAM) == 84 and GAS - run_code("4b00", rules=forks.AMSTERDAM).gas == 2


def transfers(code: str, state: State, value: int = 0) -> list[tuple[bytes, bytes, int]]:
    """Return the logged transfers of a program on Amsterdam: sender, recipient and wei."""
    state.add_balance(CALLER, value)
    run_code(code, state=state, rules=forks.AMSTERDAM, value=value)
    assert all((log.address, log.topics[0]) == (SYSTEM_ADDRESS, TRANSFER) for log in state.logs)
    return [(log.topics[1][12:], log.topics[2][12:], int.from_bytes(log.data, "big")) for log in state.logs]


def test_transfers_are_logged_from_amsterdam_on() -> None:
    """EIP-7708: of calls, creations and SELFDESTRUCT, between two accounts, and not if they revert."""
    call = "5f5f5f5f" + "6004" + "73" + OTHER.hex() + "61ffff" + "f1"
    for code, value, expected in (
        (call + call.replace("6004", "5f"), 9, [(CALLER, CONTRACT, 9), (CONTRACT, OTHER, 4)]),
        (call.replace(OTHER.hex(), CONTRACT.hex()), 0, []),
        (call + "5f5ffd", 9, []),
        ("5f5f6003f0", 5, [(CALLER, CONTRACT, 5), (CONTRACT, created_address(CONTRACT, 1), 3)]),
        ("73" + OTHER.hex() + "ff", 6, [(CALLER, CONTRACT, 6), (CONTRACT, OTHER, 6)]),
        ("73" + CONTRACT.hex() + "ff", 6, [(CALLER, CONTRACT, 6)]),
    ):
        assert transfers(code, State(StateDatabase()), value) == expected, code
    state = State(StateDatabase())
    assert run_code(call, state=state, rules=forks.OSAKA).succeeded and state.logs == []


def test_calls_nest_to_1024() -> None:
    # Each level calls itself with all gas that it can pass on, and counts successes in transient storage.
    code = "5f5f5f5f5f30" + "5a" + "f1" + "50" + "5f5c6001015f5d" + "00"
    state = State(StateDatabase())
    assert run_code(code, gas=10**12, state=state).succeeded
    assert state.transient(CONTRACT, 0) == 1025


CANCUN, PRAGUE, OSAKA = (rules.blobs or BlobRules(0, 0, 1) for rules in (forks.CANCUN, forks.PRAGUE, forks.OSAKA))


@pytest.mark.parametrize(
    ("used", "expected"), [(10_000_000, 10**9), (20_000_000, 1_125_000_000), (0, 875_000_000), (10_000_001, 10**9 + 12)]
)
def test_base_fee_steps(used: int, expected: int) -> None:
    assert next_base_fee(20_000_000, used, 10**9, 2, 8) == expected


def test_a_small_base_fee_rises_by_one_and_is_never_negative() -> None:
    assert next_base_fee(20_000_000, 10_000_001, 1, 2, 8) == 2
    assert next_base_fee(20_000_000, 0, 1, 2, 8) == 1
    assert next_base_fee(100, 0, 10, 1, 1) == 0


def test_excess_blob_gas() -> None:
    assert next_excess_blob_gas(CANCUN, 0, 3 * BLOB_GAS, 7) == 0
    assert next_excess_blob_gas(CANCUN, 0, 6 * BLOB_GAS, 7) == 3 * BLOB_GAS
    assert next_excess_blob_gas(CANCUN, 5 * BLOB_GAS, 0, 7) == 2 * BLOB_GAS
    assert next_excess_blob_gas(OSAKA, 10 * BLOB_GAS, 6 * BLOB_GAS, 1) == 10 * BLOB_GAS
    assert next_excess_blob_gas(OSAKA, 10 * BLOB_GAS, 6 * BLOB_GAS, 17) == 12 * BLOB_GAS


def test_blob_fee_grows_with_the_excess() -> None:
    assert blob_fee(CANCUN, 0) == 1 and blob_fee(CANCUN, 3_338_477) == 2
    assert blob_fee(CANCUN, 10 * 3_338_477) == 22_026
    assert blob_fee(PRAGUE, 10 * 3_338_477) < 22_026


def test_l1_rules_by_time() -> None:
    config = {"shanghaiTime": 0, "cancunTime": 10, "pragueTime": 20, "osakaTime": 20, "bpo1Time": 30}
    schedule = forks.l1_rules(config)
    names = [schedule.at(time).name for time in (0, 9, 10, 19, 20, 29, 30, 99)]
    assert names == ["shanghai", "shanghai", "cancun", "cancun", "osaka", "osaka", "bpo1", "bpo1"]
    assert forks.l1_rules({}).at(5).name == "paris"
    late = forks.l1_rules({**config, "bpo2Time": 30, "amsterdamTime": 40})
    assert (late.at(39).name, late.at(40).name) == ("bpo2", "amsterdam") and late.at(40).blobs == late.at(39).blobs


@given(st.sampled_from(sorted(forks.OSAKA.precompiles)), st.binary(max_size=400))
@settings(max_examples=150)
def test_precompiles_return_bytes_or_halt(address: bytes, data: bytes) -> None:
    if address == at(9):
        data = bytes(2) + data[2:]
    precompile = forks.OSAKA.precompiles[address]
    try:
        if precompile.gas(data) < 10**7:
            assert isinstance(precompile.run(data), bytes)
    except ExceptionalHalt:
        pass
