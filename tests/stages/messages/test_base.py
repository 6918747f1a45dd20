"""Problems of a process."""

import msgspec
import pytest

from rollup_node.stages.messages.base import Health, Problem
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import ResetError, TemporaryError


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(Code.L1_CHAIN, "poll", "head: is on L1 chain 7"), "L1-CHAIN: poll: head: is on L1 chain 7"),
        (Problem(Code.RESET_LOOP, "", "3 resets"), "RESET-LOOP: 3 resets"),
        (Problem(None, "EL sync", "block 7"), "EL sync: block 7"),
        (Problem(None, "", "L1 head not known yet"), "L1 head not known yet"),
    ],
)
def test_a_problem_is_printed_with_its_code_in_front(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_problems_are_records_between_processes() -> None:
    health = Health((Problem(Code.ENGINE_ANSWER, "drive", "runtime: OUT OF MEMORY"), Problem(None, "", "away")))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(health), type=Health) == health


def test_the_problem_of_an_error() -> None:
    """Words in capitals that look like a code decide nothing."""
    assert Problem.of(TemporaryError("OUT OF MEMORY"), "drive") == Problem(None, "drive", "OUT OF MEMORY")
    assert Problem.of(ResetError("SLOW", Code.RESET)) == Problem(Code.RESET, "", "SLOW")
