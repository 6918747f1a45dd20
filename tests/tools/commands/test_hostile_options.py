"""No value of any option ends in a traceback: each is taken, or refused in lines that say why."""

import time
from pathlib import Path

import pytest

from rollup_node.node.options.table import OPTIONS
from tests.support.processes.cli import Cli
from tests.support.processes.programs import FinishedProgram

NODE = ("--network=op-sepolia", "--l1=http://127.0.0.1:1", "--l2=http://127.0.0.1:1", "--l1.beacon=http://127.0.0.1:1")
FILES = {"bytes": bytes(range(256)), "deep": b"[" * 100_000, "object": b"{}", "empty": b"", "text": b"x\n"}
VALUES = (
    *(
        "",
        "-1",
        "true",
        "9" * 40,
        "nan",
        "1e308",
        "0s",
        ",,",
        "=",
        "x" * 5000,
        "\u2603\udc80",
        "a\0b",
        "'\"\\\n\x1b[2J",
    ),
    *("http://user:SECRET@h:99999", "http://[::1", "enr:" + "A" * 300, "/ip4/1.2.3.4/tcp/1/p2p/x", "0x" + "ff" * 32),
    *(*FILES, "folder", "/dev/null", "/nowhere/x"),
)
LONGEST = 2000
SECONDS = 10.0


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)


def ended_well(cli: Cli, *words: str) -> FinishedProgram:
    """Run a command that takes the options, or refuses them in short lines and in a bounded time."""
    began = time.thread_time()
    ended = cli(*words)
    assert ended.code in (0, 1) and time.thread_time() - began < SECONDS, words
    assert "Traceback" not in ended.err and "SECRET" not in ended.err + ended.out, words
    lines = ended.err.splitlines()
    assert all(line.startswith("rollup-node: ") and len(line) < LONGEST for line in lines), words
    assert ended.out or lines, words
    return ended


def refusing(cli: Cli, value: str, names: list[str]) -> set[str]:
    """Return which of the options refuse the value. One command sees all: of those whose type takes it, as long as none
    is refused."""
    if not names:
        return set()
    ended = ended_well(cli, "config", "show", *NODE, *(f"--{name}={value}" for name in names))
    wrong = [line for line in ended.err.splitlines() if line.startswith("rollup-node: invalid value")]
    invalid = {name for name in names if any(f" for flag --{name}: " in line for line in wrong)}
    if invalid:
        return invalid | refusing(cli, value, [name for name in names if name not in invalid])
    if ended.code == 0 or len(names) == 1:
        return set(names if ended.code else ())
    middle = len(names) // 2
    return refusing(cli, value, names[:middle]) | refusing(cli, value, names[middle:])


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("label", sorted({option.value_type.label for option in OPTIONS.values()}))
def test_a_value_of_any_option_is_taken_or_refused_in_lines(cli: Cli, label: str) -> None:
    names = [name for name, option in OPTIONS.items() if option.value_type.label == label]
    # A switch that is on may be why another is not looked at.
    alone = [[name] for name in names] if label == "bool" else [names]
    refused = [refusing(cli, value, group) for value in VALUES for group in (alone if value == "true" else [names])]
    assert set().union(*refused) == set(names), "each refuses something"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", ["rollup.config", "config"])
def test_a_file_of_the_chain_or_of_options_is_taken_or_refused_in_lines(cli: Cli, name: str) -> None:
    for file in (*FILES, "folder", "/dev/null", "/nowhere/x"):
        ended_well(cli, "config", "show", *NODE[1:], f"--{name}={file}")


@pytest.mark.usefixtures("files")
def test_check_reports_what_it_can_only_find_by_trying(cli: Cli) -> None:
    """The files and addresses that `config show` takes as they are."""
    paths = [f"--{name}=folder" for name, option in OPTIONS.items() if option.value_type.label == "path"]
    for words in (
        paths,
        ["--safedb.path=bytes", "--l2.jwt-secret=deep"],
        ["--metrics.addr=\u2603", "--rpc.addr=1.2.3.4"],
    ):
        assert ended_well(cli, "check", *NODE, *words).code == 1
