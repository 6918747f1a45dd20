"""Errors have a text and perhaps a code."""

from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.errors import CriticalError, ForkMismatchError, TemporaryError


def test_text_and_code() -> None:
    error = TemporaryError("away", Code.L1_UNREACHABLE)
    assert (str(error), error.code) == ("away", Code.L1_UNREACHABLE)
    assert (str(TemporaryError()), TemporaryError().args, TemporaryError("away").code) == ("", (), None)
    assert issubclass(ForkMismatchError, CriticalError)
