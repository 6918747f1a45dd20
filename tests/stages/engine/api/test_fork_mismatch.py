"""The engine refuses attributes for the field of a fork: the node says which fork, and by which option to set it."""

import msgspec
import pytest

from rollup_node.stages.engine.api.engine_api import ErrorAnswer, ForkchoiceAnswer
from rollup_node.stages.engine.api.fork_mismatch import raise_for_fork_mismatch
from rollup_node.stages.protocol.errors import ForkMismatchError
from rollup_node.stages.protocol.payloads import PayloadAttributes
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

ATTRIBUTES = PayloadAttributes(1_000, bytes(32), bytes(20), False, None, (), False, 30_000_000, None, None)


@pytest.mark.condition("C13")
@pytest.mark.parametrize(
    "times, words",
    [({}, "where jovian is never active"), ({"jovian": 2_000}, "where jovian begins at 2000")],
)
def test_a_field_of_a_fork_that_is_not_active_here(times: dict[str, int], words: str) -> None:
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, fork_times=times)
    with pytest.raises(ForkMismatchError, match="for block 7 at time 1000") as caught:
        raise_for_fork_mismatch(rollup, ATTRIBUTES, 7, ErrorAnswer(-38003, "minBaseFee is missing"))
    assert words in str(caught.value)
    assert "minBaseFee is missing (-38003)" in str(caught.value) and "--override.jovian" in str(caught.value)


def test_a_field_of_a_fork_that_is_active_here() -> None:
    rollup = msgspec.structs.replace(PLAIN_ROLLUP, fork_times={"canyon": 500})
    with pytest.raises(ForkMismatchError, match="canyon is active since 500"):
        raise_for_fork_mismatch(rollup, ATTRIBUTES, 7, ErrorAnswer(-38003, "unexpected withdrawals"))


@pytest.mark.parametrize(
    "answer",
    [
        ErrorAnswer(-38003, "invalid transaction"),
        ErrorAnswer(-32000, "minBaseFee is missing"),
        ForkchoiceAnswer("VALID"),
    ],
    ids=str,
)
def test_other_answers_say_nothing_of_forks(answer: object) -> None:
    raise_for_fork_mismatch(msgspec.structs.replace(PLAIN_ROLLUP, fork_times={}), ATTRIBUTES, 7, answer)
