"""The command `rollup-node`: exit codes, and one line on stderr; as a process, and in this one."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.system.exit_codes import ExitCode
from tests.support.processes.checked_start import without_supervisor
from tests.support.processes.programs import wait_for

ErrorOf = Callable[..., str]


@pytest.fixture
def error_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> ErrorOf:
    """Return the error of a command line with these variables of the environment in an empty folder, without a
    supervisor."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("NODE_")]:
        monkeypatch.delenv(name)

    def of(*words: str, **variables: str) -> str:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        with without_supervisor():
            assert cli.main(words) == ExitCode.SETUP
        out, err = capsys.readouterr()
        assert err.startswith("rollup-node: ") and err.count("\n") == 1 and err.endswith("\n")
        assert out == ""
        return err.removeprefix("rollup-node: ").rstrip()

    return of


LAST = list(cli.COMMANDS)[-1]


@pytest.mark.parametrize(
    ("word", "start", "end"),
    [
        ("--version", "rollup-node version v", "\n"),
        ("--help", "usage: rollup-node [options] ", "--l2=URL\n"),
        ("--help-all", "usage: rollup-node [options]\n", f"  {LAST:10} {cli.COMMANDS[LAST].summary}\n"),
    ],
)
def test_information(word: str, start: str, end: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([word]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(start) and out.endswith(end) and err == ""


def test_no_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == ExitCode.SETUP
    out, err = capsys.readouterr()
    assert out == ""
    starts = ("rollup-node: flag l2 is required", "rollup-node: flag network or rollup.config is required")
    assert [line.startswith(start) for line, start in zip(err.splitlines(), starts, strict=True)] == [True] * 2


def test_all_wrong_options_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--l1.becon=x", "--network=op-sepola", "--l2=ftp://a", "--p2p.peers.lo=9", "--p2p.peers.hi=3")
    assert cli.main(words) == ExitCode.SETUP
    lines = capsys.readouterr().err.splitlines()
    expected = (
        "unknown flag --l1.becon; did you mean --l1.beacon?",
        'invalid value "ftp://a" for flag --l2',
        "peers lo/hi tides are invalid",
        'invalid network: "op-sepola"',
    )
    assert [line.removeprefix("rollup-node: ")[: len(text)] for line, text in zip(lines, expected, strict=True)] == [
        *expected
    ]


def test_the_lines_of_errors_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([f"--unknown{number}" for number in range(200)]) == ExitCode.SETUP
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == cli.MAX_ERRORS + 1 and lines[-1].endswith(" more errors")


def test_an_unknown_command(error_of: ErrorOf) -> None:
    text = error_of("devnt")
    assert text == "unknown command 'devnt'; did you mean devnet?; commands are " + ", ".join(cli.COMMANDS)


def test_a_command_gets_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "command_of_the_test.py").write_text("def main(arguments):\n    return len(arguments)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(cli.COMMANDS, "count", cli.Command("command_of_the_test", ""))
    assert cli.main(["count", "--json", "x"]) == 2


@pytest.mark.parametrize(
    ("module", "extra", "text"),
    [
        ("rollup_node.node.nothing", "", "is not part of this installation (rollup_node.node.nothing is missing)"),
        ("no_such_package", "", "needs the package no_such_package: install rollup-node again"),
        ("no_such_package", "fun", "needs the package no_such_package: install rollup-node[fun]"),
    ],
)
def test_a_missing_command(
    module: str, extra: str, text: str, monkeypatch: pytest.MonkeyPatch, error_of: ErrorOf
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "gone", cli.Command(module, "", extra))
    assert error_of("gone") == f"command gone {text}"


def test_the_command_line_imports_no_heavy_package(tmp_path: Path) -> None:
    code = "import sys, rollup_node.node.cli; print(sorted({'aiohttp', 'zmq', 'ckzg', 'web3'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words",
    [
        (f"--p2p.sequencer.key={'5e' * 32}", "--l1=http://u:hunter2@127.0.0.1:1"),
        ("check", "--l1=http://127.0.0.1:1/v2/hunter2"),
    ],
    ids=" ".join,
)
def test_no_secret_stays_in_the_list_of_processes(tmp_path: Path, words: tuple[str, ...]) -> None:
    """[OPT88] A program that waits for its options file is seen as others see it."""
    os.mkfifo(tmp_path / "node.toml")
    with subprocess.Popen(
        [sys.executable, "-m", "rollup_node", *words, "--config=node.toml"], cwd=tmp_path, stderr=subprocess.PIPE
    ) as process:
        try:
            shown = Path(f"/proc/{process.pid}/cmdline")
            wait_for(lambda: shown.read_bytes().startswith(b"rollup-node: "), "the title")
            assert b"5e5e" not in shown.read_bytes() and b"hunter2" not in shown.read_bytes()
        finally:
            process.kill()


def test_each_secret_among_the_words_of_a_command_hides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """[OPT88]"""
    hidden: list[str] = []
    monkeypatch.setattr(cli, "_hide_arguments", hidden.append)
    monkeypatch.setattr(cli, "_command", lambda name: len)
    commands: list[Sequence[str]] = [("config", "show", "--rpc.port", "1")]
    commands += [("config", "show", f"--{name}", "5e") for name, option in OPTIONS.items() if option.secret]
    commands += [("supernode", "--vn.10.p2p.sequencer.key", "5e"), ("check", "--l1=http://u:hunter2@127.0.0.1:1")]
    for number, words in enumerate(commands):
        cli.main(words)
        assert len(hidden) == number, words
