"""docs/operator-days.md: its commands run in their order, on a chain of loopback, below another root."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollup_node.tools.dev.release import export
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.offline_python import write_offline_python
from tests.support.processes.programs import call, http_get, wait_for
from tests.support.servers.loopback import free_port, own_address

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operator-days.md").read_text()
UNIT = (ROOT / "docker" / "rollup-node.service").read_text()
VERSIONS = ("0.1.0", "0.2.0")
SYSTEMCTL = """#!/bin/sh
# Starts what the unit starts, in the folder that it names.
case "$1 $*" in
  "start "*rollup-node|"enable "*rollup-node)
    cd "$STATE" && setsid $COMMAND > "$FOLDER/log.$$" 2>&1 < /dev/null & echo $! > "$FOLDER/pid" ;;
  "stop "*rollup-node)
    kill -TERM "$(cat "$FOLDER/pid")"; while kill -0 "$(cat "$FOLDER/pid")" 2> /dev/null; do sleep 0.05; done
    rm "$FOLDER/pid" ;;
esac
"""


def blocks() -> dict[str, list[str]]:
    """Return the commands of each section."""
    sections = re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    return {title: re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for title, text in sections}


@pytest.fixture(scope="module")
def chain(module_leftovers: Leftovers) -> Iterator[LocalChain]:
    with LocalChain(module_leftovers) as local_chain:
        yield local_chain


@pytest.fixture
def folder(tmp_path: Path, chain: LocalChain) -> Iterator[Path]:
    """A folder with what an operator has: two releases, the unit, a secret, and how op-node is started."""
    export(ROOT, tmp_path / "tree", VERSIONS[0])
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir"]
    subprocess.run([*command, tmp_path, tmp_path / "tree"], check=True, capture_output=True)
    write_next_release(tmp_path)
    (tmp_path / "docker").mkdir()
    shutil.copy(ROOT / "docker" / "rollup-node.service", tmp_path / "docker")
    shutil.copy(chain.files.jwt, tmp_path / "jwt.hex")
    words = chain.options(rpc_addr=own_address(), rpc_port=None, workers=None)
    options = [word for word in words if not word.startswith("--l2.jwt-secret")]
    (tmp_path / "op-node.sh").write_text(
        "op-node " + " \\\n  ".join([*options, f"--l2.jwt-secret={tmp_path}/etc/rollup-node/jwt.hex"]) + "\n"
    )
    for name in ("opt", "etc/systemd/system", "var/lib/rollup-node", "bin"):
        (tmp_path / name).mkdir(parents=True)
    # What needs the rights of root, and what systemd does.
    write_offline_python(tmp_path / "bin" / "python3")
    for name, text in {"systemctl": SYSTEMCTL, "useradd": "#!/bin/sh\n", "chown": "#!/bin/sh\n"}.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    yield tmp_path
    if (pid := tmp_path / "pid").exists():
        os.kill(int(pid.read_text()), 9)


def write_next_release(folder: Path) -> None:
    """Write the wheel of the second version, with the files of the first."""
    first, second = (folder / f"rollup_node-{version}-py3-none-any.whl" for version in VERSIONS)
    before, after = (f"rollup_node-{version}.dist-info/" for version in VERSIONS)
    with zipfile.ZipFile(first) as old, zipfile.ZipFile(second, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.startswith(before):
                data = data.replace(before.encode(), after.encode())
                data = re.sub(rb"(?m)^Version: .*$", f"Version: {VERSIONS[1]}".encode(), data)
            new.writestr(name.replace(before, after), data)


class Shell:
    """Runs the blocks of the page, with variables that last, below the folder and on another port."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        (line,) = re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
        words = f"{line.replace('/run/rollup-node', str(folder / 'run'))} --rpc.port={port}"
        self._environment = {
            "PATH": f"{folder}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
            "PIP_NO_INDEX": "1",
            "PIP_NO_COMPILE": "1",
            "PIP_NO_DEPS": "1",
            "FOLDER": str(folder),
            "STATE": str(folder / "var" / "lib" / "rollup-node"),
            "COMMAND": self._moved(words),
        }
        self._variables = ""

    def _moved(self, text: str) -> str:
        text = re.sub(r"(?<![\w.])/(opt|etc|var)/", rf"{self._folder}/\1/", text)
        return text.replace("127.0.0.1:9545", f"{own_address()}:{self._port}").replace("-o rollup ", "")

    def run(self, block: str) -> str:
        """Return what a block prints."""
        self._variables += "".join(line + "\n" for line in block.splitlines() if re.fullmatch(r"[A-Z]+=\S+", line))
        script = f"set -e\n{self._variables}{self._moved(block)}".replace(
            "status\n", f"status --rpc http://{own_address()}:{self._port}\n"
        )
        done = subprocess.run(
            ["bash", "-c", script], cwd=self._folder, env=self._environment, capture_output=True, text=True, timeout=50
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
        return done.stdout


def test_the_days_of_an_operator(folder: Path, chain: LocalChain) -> None:
    install, convert, upgrade, back = blocks().values()
    port = free_port()
    url = f"http://{own_address()}:{port}"
    shell = Shell(folder, port)
    outputs = list(map(shell.run, install))
    assert outputs[0].endswith("rollup-node version v0.1.0\n")
    shell.run(convert[0])
    shell.run(convert[1])
    wait_for(lambda: http_get(f"{url}/readyz")[0] == 200, "ready")

    def told() -> str:
        text = shell.run(convert[2])
        return text if text.startswith('{"ready":true}') else ""

    # On a machine that is too slow it may be behind again.
    assert "v0.1.0" in wait_for(told, "its words that it is ready")
    assert '"l2.jwt-secret"' in (folder / "etc/rollup-node/node.toml").read_text()
    assert "file" in shell.run(upgrade[0])

    def version() -> bool:
        return bool(call(url, "optimism_version"))

    for blocks_of_day, expected in ((upgrade[1:], "v0.2.0"), (back, "v0.1.0")):
        for block in blocks_of_day:
            shell.run(block.replace("curl -s", "curl -s --retry 60 --retry-delay 1 --retry-connrefused"))
        assert wait_for(version, "the RPC server")
        assert call(url, "optimism_version") == expected
    shell.run("systemctl stop rollup-node\n")
