"""The files in `docker`: options and exit codes are the program's."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.supervisor.supervisor import FATAL_ENDS

VALUES = {"NETWORK": "op-sepolia", "L1": "http://127.0.0.1:8545", "L1_BEACON": "http://127.0.0.1:5052"}
FOLDER = Path(__file__).parent.parent / "docker"
UNIT, COMPOSE, IMAGE = ((FOLDER / name).read_text() for name in ("rollup-node.service", "compose.yaml", "Dockerfile"))


def test_the_unit_restarts_no_node_whose_restart_cannot_help() -> None:
    (codes,) = re.findall(r"^RestartPreventExitStatus=(.*)$", UNIT, re.MULTILINE)
    assert {int(code) for code in codes.split()} == {int(code) for code in FATAL_ENDS}


def test_the_options_of_the_unit_and_of_the_compose_file_are_valid() -> None:
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", UNIT, re.MULTILINE)
    service = COMPOSE.partition("\n  node:\n")[2].partition("\n  prometheus:\n")[0]
    flags = re.sub(r"\$\{(\w+):[^}]*\}", lambda value: VALUES[value[1]], service)
    for words in (command.split(), re.findall(r"^ +- (--\S+)$", flags, re.MULTILINE)):
        assert len(words) >= 3
        errors = [error for error in read_options(words, {}).errors if "node.toml" not in error]
        assert errors == []


def test_the_image_asks_its_own_rpc_server_for_its_health() -> None:
    assert f"http://127.0.0.1:{OPTIONS['rpc.port'].default}/healthz" in IMAGE
    ports = {OPTIONS[name].default or "" for name in ("rpc.port", "metrics.port", "p2p.listen.tcp")}
    (exposed,) = re.findall(r"^EXPOSE (.*)$", IMAGE, re.MULTILINE)
    assert {word.partition("/")[0] for word in exposed.split()} == ports


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "rollup-node.service"
    file.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT, flags=re.MULTILINE))
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
