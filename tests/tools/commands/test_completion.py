"""The completion scripts, that of bash run by bash."""

import shutil
import subprocess
from pathlib import Path

import pytest
import shtab

from rollup_node.node.cli import COMMANDS
from rollup_node.node.options.table import OPTIONS
from rollup_node.tools.commands.completion import SHELLS, shell_parser
from tests.support.processes.cli import Cli

SHOWN = [name for name, option in OPTIONS.items() if not option.hidden]


@pytest.mark.parametrize("shell", SHELLS)
def test_every_option_and_command_is_in_the_script(shell: str, cli: Cli) -> None:
    text = cli.out("completion", shell)
    assert not [name for name in (*SHOWN, *COMMANDS) if name not in text]


COMPLETED = {
    "--netw": "--network",
    "--network op-m": "op-mainnet",
    "--l1.trust": "--l1.trustrpc",
    "--syncmode cons": "consensus-layer",
    "dec": "decode",
    "completion z": "zsh",
    "help bea": "beacon",
    "--sequencer.enabled --p2p.di": "--p2p.disable --p2p.discovery.path",
}
COMPLETES = """COMP_WORDS=(rollup-node {words}); COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
COMP_LINE='rollup-node {words}'; COMP_POINT=${{#COMP_LINE}}
$(complete -p rollup-node | sed 's/.*-F //; s/ .*//') rollup-node "${{COMP_WORDS[-1]}}" '' 2>/dev/null
echo "${{COMPREPLY[@]}}"
"""


def test_bash_completes(tmp_path: Path, cli: Cli) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    file = tmp_path / "completion.bash"
    file.write_text(cli.out("completion", "bash"))
    code = f"source {file}\n" + "".join(COMPLETES.format(words=words) for words in COMPLETED)
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert [sorted(line.split()) for line in done.stdout.splitlines()] == [text.split() for text in COMPLETED.values()]


@pytest.mark.parametrize("shell", ("zsh", "fish"))
def test_other_shells_accept_the_script(shell: str, tmp_path: Path, cli: Cli) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(cli.out("completion", shell))
    subprocess.run([shell, "-n", str(file)], timeout=30, check=True)


def test_options_and_commands() -> None:
    parser = shell_parser({"run": "runs"}, {"run": ("fast", "slow")}, {"network": ("a", "b")})
    actions = {name: action for action in parser._actions for name in action.option_strings}
    assert set(SHOWN) <= {flag[2:] for flag in actions}
    assert not [name for name, option in OPTIONS.items() if option.hidden and f"--{name}" in actions]
    assert tuple(actions["--network"].choices or ()) == ("a", "b")
    assert actions["--l1.trustrpc"].nargs == 0 and actions["--l1"].nargs is None
    assert getattr(actions["--safedb.path"], "complete", None) == shtab.FILE
    assert parser.parse_args(["run", "slow"]).word == "slow"
    assert len(parser.format_help()) > 5000
