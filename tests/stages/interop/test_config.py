"""Times and heights of the chains of a set [VR1, VR2]."""

from tests.support.interop.values import dependency_set, member

CONFIG = dependency_set(member(1), member(2, block_time=2), member(3, 2, 1005, number=50), activation=1003)


def test_a_slow_chain_has_its_block_for_two_seconds() -> None:
    """[VR2]: of a chain that has not begun, the number below its genesis block."""
    heights = {time: tuple(CONFIG.heights_at(time).values()) for time in (999, 1000, 1003, 1004, 1005, 1008)}
    assert heights == {
        999: (-1, -1, 49),
        1000: (0, 0, 49),
        1003: (3, 1, 49),
        1004: (4, 2, 49),
        1005: (5, 2, 50),
        1008: (8, 4, 51),
    }


def test_the_first_round_has_blocks_of_all_chains() -> None:
    """[VR1]"""
    assert CONFIG.first_round == 1005
    assert dependency_set(member(1), activation=1003).first_round == 1003
