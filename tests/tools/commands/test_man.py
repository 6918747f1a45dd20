"""The manual page."""

import shutil
import subprocess

import pytest

from rollup_node.node.cli import COMMANDS, main
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.system.exit_codes import ExitCode


def test_the_page_has_every_option_and_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == ExitCode.OK
    text = capsys.readouterr().out.replace("\\-", "-")
    assert text.startswith(".TH ROLLUP-NODE")
    assert not [name for name, option in OPTIONS.items() if not option.hidden and f"--{name}\\fR" not in text]
    assert not [name for name in COMMANDS if name not in text]


def test_the_page_is_correct_roff(capsys: pytest.CaptureFixture[str]) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")
    assert main(["man"]) == ExitCode.OK
    page = capsys.readouterr().out
    done = subprocess.run([groff, "-man", "-Tutf8", "-ww"], input=page, capture_output=True, text=True, timeout=50)
    # Long names leave lines that groff can neither break nor adjust.
    warnings = [line for line in done.stderr.splitlines() if not line.endswith(("break line", "adjust line"))]
    assert (done.returncode, warnings) == (0, [])
    assert "rollup-node v" in done.stdout
