"""The analysis of code; what frames do is compared in test_eels_differential."""

from rollup_node.tools.devnet.evm import instruction_table
from rollup_node.tools.devnet.evm.call_frame import CodeAnalysis


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
