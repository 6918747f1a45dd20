"""The files in `docker`: options and exit codes are the program's."""

import json
import os
import re
import shutil
import signal
import site
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.supervisor.child_processes import FATAL_ENDS
from tests.support.chains.local_chain import LocalChain
from tests.support.foreign_user import needs_root
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.offline_python import write_offline_python
from tests.support.processes.programs import Program
from tests.support.servers.loopback import free_port, own_address

VALUES = {"NETWORK": "op-sepolia", "L1": "http://127.0.0.1:8545", "L1_BEACON": "http://127.0.0.1:5052"}
IN_IMAGE = {"PATH": os.environ["PATH"], "PYTHONPATH": ":".join(site.getsitepackages())}
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


def test_the_image_names_its_ports() -> None:
    ports = {OPTIONS[name].default or "" for name in ("rpc.port", "metrics.port", "p2p.listen.tcp")}
    (exposed,) = re.findall(r"^EXPOSE (.*)$", IMAGE, re.MULTILINE)
    assert {word.partition("/")[0] for word in exposed.split()} == ports


def test_the_compose_file_serves_this_machine_and_comes_back_after_a_reboot() -> None:
    services = pytest.importorskip("yaml").safe_load(COMPOSE)["services"]
    assert [name for name, service in services.items() if service.get("restart") != "unless-stopped"] == ["secret"]
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {
        "engine": ["127.0.0.1:8545:8545", "30303:30303/tcp", "30303:30303/udp"],
        "node": ["127.0.0.1:9545:9545", "127.0.0.1:7310:7310", "9222:9222/tcp", "9222:9222/udp"],
        "prometheus": ["127.0.0.1:9090:9090"],
        "alertmanager": ["127.0.0.1:9093:9093"],
        "grafana": ["127.0.0.1:3000:3000"],
    }
    assert {"--http", "--http.addr=0.0.0.0", "--port=30303"} <= set(services["engine"]["command"])
    assert {"--status.enabled", "--status.addr=0.0.0.0"} <= set(services["node"]["command"])
    images = {service["image"] for service in services.values() if "build" not in service}
    assert len(images) == 4 and all(re.search(r"/[a-z-]+:v?\d+\.\d+\.\d+$", image) for image in images)


def instructions() -> dict[str, list[str]]:
    """Return the arguments of the instructions of the Dockerfile by name, without comments and continuations."""
    result: dict[str, list[str]] = {}
    text = "\n".join(line for line in IMAGE.splitlines() if not line.startswith("#"))
    for line in text.replace("\\\n", " ").splitlines():
        if line.strip():
            name, _, words = line.partition(" ")
            result.setdefault(name, []).append(" ".join(words.split()))
    return result


def test_an_image_is_built(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "info"], capture_output=True, check=False).returncode:
        pytest.skip("there is no Docker daemon: the steps are run without one")
    built = subprocess.run(
        [docker, "build", "-q", "-f", FOLDER / "Dockerfile", FOLDER.parent], capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    shown = [docker, "run", "--rm", "--network=none", built.stdout.strip(), "--version"]
    assert subprocess.run(shown, capture_output=True, text=True, check=True).stdout.startswith("rollup-node version v")


@pytest.fixture(scope="module")
def image_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a root in which the build step of the Dockerfile was run; what it would download is that of the tests."""
    root, tree = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("src")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=FOLDER.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        source = FOLDER.parent / name
        if not name.startswith(("tests/", "docs/")) and source.exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name, follow_symlinks=False)
    step = instructions()["RUN"][0]
    assert step.startswith("python -m venv /opt/rollup-node && /opt/rollup-node/bin/pip install ")
    python = write_offline_python(tree.parent / "python3")
    command = step.replace("/opt/rollup-node", f"{root}/opt/rollup-node").replace("python", str(python), 1)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_COMPILE": "1"}
    done = subprocess.run(["sh", "-c", command], cwd=tree, env=IN_IMAGE | offline, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


class Container(Program):
    """A program as the first process of a container."""

    is_forked = False

    @staticmethod
    def _start_of_command(module: str) -> tuple[str, ...]:
        return ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", module)

    @property
    def first(self) -> int:
        """The id of that process, outside."""
        return int(Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text())

    def run_inside(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program in it as `docker exec` does; Docker gives every container the proxy of its client."""
        command = ["nsenter", f"--target={self.first}", "--pid", "--mount", *words]
        environment = IN_IMAGE | {"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9"}
        return subprocess.run(
            command, env=environment, cwd="/", capture_output=True, text=True, timeout=50, check=False
        )


@pytest.fixture(scope="module")
def chain(module_leftovers: Leftovers) -> Iterator[LocalChain]:
    with LocalChain(module_leftovers) as local_chain:
        yield local_chain


@needs_root
@pytest.mark.parametrize("given_by", ["flag", "variable", "file"])
def test_the_health_check_finds_the_node_at_any_port(
    chain: LocalChain, module_leftovers: Leftovers, image_root: Path, given_by: str
) -> None:
    """[LIF31] Also with a proxy in the environment that does not answer."""
    port = free_port()
    words = chain.options(rpc_addr=own_address(), rpc_port=port if given_by == "flag" else None)
    if given_by == "file":
        words.append(f"--config={chain.write('node.toml', f'[rpc]{chr(10)}port = {port}')}")
    more = {"NODE_RPC_PORT": str(port)} if given_by == "variable" else {}
    (entry,) = json.loads(instructions()["ENTRYPOINT"][0])
    check = json.loads(instructions()["HEALTHCHECK"][0].partition(" CMD ")[2])
    programs = image_root / "opt" / "rollup-node" / "bin"
    inside = [str(programs / check[0]), *check[1:]]
    with Container(module_leftovers, str(programs / entry), *words, **IN_IMAGE, **more) as node:
        node.wait_for_line("starting node")
        node.wait_for_line(' processes are ready"')
        result = node.run_inside(inside)
        assert (result.returncode, result.stdout) == (0, f"http://{own_address()}:{port} is alive\n"), result
        os.kill(node.first, signal.SIGTERM)
        assert node.wait_for_exit().code == 0


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    file = tmp_path / "rollup-node.service"
    file.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", UNIT, flags=re.MULTILINE))
    done = subprocess.run([program, "verify", str(file)], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
