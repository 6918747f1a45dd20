"""No value of any option ends in a traceback: each is taken, or refused in lines that say why."""

import time
from pathlib import Path

import pytest

from rollup_node.node.options.option import Section
from rollup_node.node.options.table import OPTIONS, SECTIONS
from tests.support.processes.cli import Cli

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


def refused_well(cli: Cli, *words: str) -> bool:
    """Run a command that takes the options, or refuses them in short lines and in a bounded time; whether it does."""
    began = time.thread_time()
    ended = cli(*words)
    assert ended.code in (0, 1) and time.thread_time() - began < SECONDS, words
    assert "Traceback" not in ended.err and "SECRET" not in ended.err + ended.out, words
    lines = ended.err.splitlines()
    assert all(line.startswith("rollup-node: ") and len(line) < LONGEST for line in lines), words
    assert ended.out or lines, words
    return ended.code == 1


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.title)
def test_a_value_of_any_option_is_taken_or_refused_in_lines(cli: Cli, section: Section) -> None:
    for option in section.options:
        refused = [value for value in VALUES if refused_well(cli, "config", "show", *NODE, f"--{option.name}={value}")]
        assert refused, f"{option.name} refuses something"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("name", ["rollup.config", "config"])
def test_a_file_of_the_chain_or_of_options_is_taken_or_refused_in_lines(cli: Cli, name: str) -> None:
    for file in (*FILES, "folder", "/dev/null", "/nowhere/x"):
        refused_well(cli, "config", "show", *NODE[1:], f"--{name}={file}")


@pytest.mark.usefixtures("files")
def test_check_reports_what_it_can_only_find_by_trying(cli: Cli) -> None:
    """The files and addresses that `config show` takes as they are."""
    paths = [f"--{name}=folder" for name, option in OPTIONS.items() if option.value_type.label == "path"]
    for words in (
        paths,
        ["--safedb.path=bytes", "--l2.jwt-secret=deep"],
        ["--metrics.addr=\u2603", "--rpc.addr=1.2.3.4"],
    ):
        assert refused_well(cli, "check", *NODE, *words)
