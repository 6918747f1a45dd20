"""Commands of the local network end with one line."""

import pytest

from rollup_node.tools.devnet.endings import FAILURES, exit_code

RAISED: list[tuple[BaseException, int, str]] = [
    (PermissionError(13, "Permission denied", "/tmp/x"), 1, "error: /tmp/x: Permission denied"),
    (OSError("no space"), 1, "error: no space"),
    (FAILURES[0]("--blocks: must be at least 1, not 0"), 1, "error: --blocks: must be at least 1, not 0"),
    (KeyboardInterrupt(), 130, "interrupted before the output roots were compared"),
]


@pytest.mark.parametrize(("error", "code", "line"), RAISED)
def test_a_failure_is_one_line(error: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> int:
        raise error

    assert exit_code(command) == code
    assert capsys.readouterr().err == f"{line}\n"


def test_the_exit_code_of_a_command_is_its_own() -> None:
    assert [exit_code(lambda: 3), exit_code(lambda: 0)] == [3, 0]
