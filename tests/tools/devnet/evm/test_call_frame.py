"""The analysis of code; what frames do is compared in test_eels_differential."""

from rollup_node.tools.devnet.evm.call_frame import CodeAnalysis, Instruction, InstructionSet
from rollup_node.tools.devnet.evm.instructions import table


def analysis(code: str) -> CodeAnalysis:
    return table.OSAKA.analyse(bytes.fromhex(code))


def test_a_block_sums_gas_and_stack() -> None:
    block = analysis("6001600201" + "00").block_at(0)
    assert (block.gas, block.stack_needed, block.stack_growth) == (9, 0, 2)
    assert [argument for _, argument in block.steps[:2]] == [1, 2]
    needing = analysis("01" + "50" + "6001").block_at(0)
    assert (needing.stack_needed, needing.stack_growth) == (2, 0)


def test_blocks_end_at_jump_destinations_and_gas_observers() -> None:
    code = "6001" + "5b6002" + "5a" + "6003"
    result = analysis(code)
    assert result.block_at(0).following == 2
    assert result.block_at(2).following == 6
    assert result.block_at(2).gas == 1 + 3 + 2
    assert result.block_at(6).following == -1
    assert analysis("6001" + "55" + "00").block_at(0).following == 3


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


def test_an_extended_set_replaces_rows() -> None:
    base = InstructionSet({0x00: Instruction(0, 0, 0, None, ends_block=True), 0x5F: Instruction(2, 0, 1, None)})
    extended = base.extended({0x5F: Instruction(7, 0, 1, None)})
    assert base.analyse(b"\x5f").block_at(0).gas == 2
    assert extended.analyse(b"\x5f").block_at(0).gas == 7
    assert extended.rows[0x00] == base.rows[0x00]
