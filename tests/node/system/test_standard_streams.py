"""The command with standard input, output or error closed, full, or without a reader."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{sys.executable} -m rollup_node"
NODE = (
    f"{COMMAND} --network=op-sepolia --l1.beacon.ignore --p2p.disable --l2=http://127.0.0.1:1 --rpc.port=0"
    " --rpc.addr=127.0.0.1 --l2.jwt-secret=jwt"
)


def shell(line: str, folder: Path) -> tuple[int, str, str]:
    """Exit code of the first program of a shell line, standard output, standard error."""
    without = {name: value for name, value in os.environ.items() if not name.startswith("NODE_")}
    done = subprocess.run(
        ["bash", "-c", f"{line}; exit ${{PIPESTATUS[0]}}"],
        cwd=folder,
        env=without,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("words", ["p2p genkey", "decode --help"])
def test_a_full_device_is_an_error(words: str, tmp_path: Path) -> None:
    error = "rollup-node: cannot write to standard output: No space left on device\n"
    assert shell(f"{COMMAND} {words} >/dev/full", tmp_path) == (1, "", error)


def test_closed_output_is_an_error(tmp_path: Path) -> None:
    error = "rollup-node: cannot write to standard output: Bad file descriptor\n"
    assert shell(f"{COMMAND} p2p genkey >&-", tmp_path) == (1, "", error)


def test_a_reader_that_stops_is_no_error(tmp_path: Path) -> None:
    code, _, errors = shell(f"{COMMAND} --help | true", tmp_path)
    assert (code in (0, 1), errors) == (True, "")


def test_closed_errors_do_not_mix_with_the_output(tmp_path: Path) -> None:
    for end in ("2>&-", "2>/dev/full"):
        assert shell(f"{COMMAND} nothing {end}", tmp_path) == (1, "", "")


def test_a_file_may_be_standard_input(tmp_path: Path) -> None:
    code, _, errors = shell(f"{COMMAND} decode - --as batch <<<0x05", tmp_path)
    assert (code, errors.count("\n")) == (1, 1) and "unknown batch type 5" in errors


def test_closed_input_is_empty(tmp_path: Path) -> None:
    code, _, errors = shell(f"{COMMAND} p2p priv2id <&-", tmp_path)
    assert (code, errors.count("\n")) == (1, 1)
    assert errors.startswith("rollup-node: standard input must be a private key in hex")


@pytest.mark.parametrize("end", [">&-", "| true"])
def test_a_node_starts_without_a_reader_of_its_log(end: str, tmp_path: Path) -> None:
    """An unknown variable is logged as a warning; then the start ends by the runtime directory, not by the log."""
    (tmp_path / "jwt").write_text("11" * 32)
    line = f"NODE_UNKNOWN=1 {NODE} --runtime.dir={'long' * 40} {end}"
    code, _, errors = shell(line, tmp_path)
    assert (code, errors.count("\n")) == (1, 1)
    assert "is too long: sockets allow" in errors
