"""The manual page."""

import shutil
import subprocess

import pytest

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.table import OPTIONS
from tests.support.processes.cli import Cli


def test_the_page_has_every_option_and_command(cli: Cli) -> None:
    text = cli.out("man").replace("\\-", "-")
    assert text.startswith(".TH ROLLUP-NODE")
    assert not [name for name, option in OPTIONS.items() if not option.hidden and f"--{name}\\fR" not in text]
    assert not [name for name in COMMANDS if name not in text]


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_correct_roff(cli: Cli) -> None:
    groff = ["groff", "-man", "-Tutf8", "-ww"]
    done = subprocess.run(groff, input=cli.out("man"), capture_output=True, text=True, timeout=50)
    # Long names leave lines that groff can neither break nor adjust.
    warnings = [line for line in done.stderr.splitlines() if not line.endswith(("break line", "adjust line"))]
    assert (done.returncode, warnings) == (0, [])
    assert "rollup-node v" in done.stdout
