"""The command `rollup-node devnet`, with one chain and with several."""

import pytest

from rollup_node.tools.multichain.cli import main


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--chains=0"], "error: --chains 0: expected 1 to 8"),
        (["--chains", "9"], "error: --chains 9: expected 1 to 8"),
        (["--nodes=0"], "error: --nodes: must be at least 1, not 0"),
    ],
)
def test_wrong_flags_are_one_line(flags: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(flags) == 1
    output = capsys.readouterr()
    assert output.err.startswith(text) and output.err.count("\n") == 1 and not output.out


def test_a_run_of_several_chains_is_asked_for_by_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, text in ((["--chains=2", "--help"], "rollup-node devnet --chains"), (["--help"], "--nodes N")):
        with pytest.raises(SystemExit):
            main(flags)
        assert text in capsys.readouterr().out
