"""The command `rollup-node`: exit codes, and one line on stderr; as a process, and in this one."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node import cli
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.system.exit_codes import ExitCode
from tests.support.processes.checked_start import without_supervisor
from tests.support.processes.programs import wait_for

NEEDED = ("--network=op-sepolia", "--l2=http://127.0.0.1:1", "--l1.beacon=http://127.0.0.1:1")


def run(*words: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if not key.startswith("NODE_")}
    return subprocess.run(
        [sys.executable, "-m", "rollup_node", *words],
        cwd=folder,
        env=environ | variables,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


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


def test_version(tmp_path: Path) -> None:
    done = run("--version", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("rollup-node version v")


def test_help(tmp_path: Path) -> None:
    done = run("--help", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  --l1.beacon URL " in done.stdout and len(done.stdout.splitlines()) <= 36


def test_all_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help-all"]) == 0
    text = capsys.readouterr().out
    assert "L1 connection:" in text and "--l1.beacon URL" in text
    last = list(cli.COMMANDS)[-1]
    assert text.endswith(f"  {last:10} {cli.COMMANDS[last].summary}\n")


def test_a_wrong_flag(tmp_path: Path) -> None:
    done = run(*NEEDED, "--l1.becon=x", folder=tmp_path)
    assert (done.returncode, done.stdout) == (ExitCode.SETUP, "")
    assert done.stderr == "rollup-node: unknown flag --l1.becon; did you mean --l1.beacon?\n"


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


def test_a_remote_signer_that_does_not_answer_ends_the_start_with_one_line(error_of: ErrorOf) -> None:
    signer = ("--signer.endpoint=http://127.0.0.1:1", f"--signer.address=0x{20 * '11'}", "--signer.tls.enabled=false")
    p2p = ("--p2p.no-discovery", "--p2p.netrestrict=127.0.0.0/8", "--p2p.listen.ip=127.0.0.1", "--p2p.listen.tcp=0")
    rpc = ("--l1=http://127.0.0.1:1", "--rpc.addr=127.0.0.1", "--rpc.port=0", "--log.level=error")
    assert error_of(*NEEDED, *signer, *p2p, *rpc) == (
        "the remote signer cannot be used, 127.0.0.1:1: cannot connect (Connection refused):"
        " check --signer.endpoint, and that the signer is up (SIGNER-UNREACHABLE)"
    )


def test_an_unknown_command(error_of: ErrorOf) -> None:
    text = error_of("devnt")
    assert text == "unknown command 'devnt'; did you mean devnet?; commands are " + ", ".join(cli.COMMANDS)


def test_a_command_gets_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "command_of_the_test.py").write_text("def main(arguments):\n    return len(arguments)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(cli.COMMANDS, "count", cli.Command("command_of_the_test", ""))
    assert cli.main(["count", "--json", "x"]) == 2


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("rollup_node.node.nothing", "command gone is not part of this installation (rollup_node.node.nothing is"),
        ("no_such_package", "command gone needs the package no_such_package"),
    ],
)
def test_a_missing_command(
    module: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "gone", cli.Command(module, ""))
    assert cli.main(["gone"]) == ExitCode.SETUP
    assert capsys.readouterr().err.startswith(f"rollup-node: {text}")


def test_a_command_whose_extra_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(cli.COMMANDS, "gone", cli.Command("no_such_package", "", extra="fun"))
    assert cli.main(["gone"]) == ExitCode.SETUP
    assert capsys.readouterr().err.endswith("needs the package no_such_package: install rollup-node[fun]\n")


def test_the_command_line_imports_no_heavy_package(tmp_path: Path) -> None:
    code = "import sys, rollup_node.node.cli; print(sorted({'aiohttp', 'zmq', 'ckzg', 'web3'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "words",
    [
        (f"--p2p.sequencer.key={'5e' * 32}", "--l1=http://u:hunter2@127.0.0.1:1"),
        ("supernode", "--chains=10,130", "--vn.10.p2p.sequencer.key", "5e" * 32),
        ("check", "--l1=http://127.0.0.1:1/v2/hunter2"),
        *(("config", "show", f"--{name}", "5e" * 32) for name, option in OPTIONS.items() if option.secret),
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
