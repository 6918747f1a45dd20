"""Programs under test as subprocesses with bounded waits, and HTTP and JSON-RPC calls to them."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Self, TypeVar

from tests.support.leftovers import Leftovers

T = TypeVar("T")
UNREACHABLE = (OSError, http.client.HTTPException, json.JSONDecodeError)
"""What calls raise while a program does not serve yet, or its file is not there or incomplete."""


class RpcResponseError(Exception):
    """The response was a JSON-RPC error object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.message = error.get("code"), str(error.get("message"))


def call(url: str, method: str, *params: Any, seconds: float = 30.0) -> Any:
    """The result of a JSON-RPC call. Raises RpcResponseError, or one of UNREACHABLE where nothing serves."""
    response = _post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, seconds)
    if "error" in response:
        raise RpcResponseError(response["error"])
    return response["result"]


def call_all(url: str, *calls: tuple[Any, ...], seconds: float = 30.0) -> list[Any]:
    """The results of a batch of successful JSON-RPC calls, each a method with its parameters."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, *params) in enumerate(calls)
    ]
    results = {response["id"]: response["result"] for response in _post(url, batch, seconds)}
    return [results[number] for number in range(len(calls))]


def _post(url: str, body: Any, seconds: float) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=seconds) as response:
        return json.load(response)


def get(url: str, seconds: float = 30.0) -> tuple[int, str]:
    """Status and text of an HTTP GET, also of an error."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def unready_reasons(url: str) -> list[str]:
    """The reasons of `/readyz` why a node is not ready; empty when it is."""
    status, text = get(url + "/readyz")
    found = json.loads(text)
    assert (status == 200) is found["ready"] and status in (200, 503)
    return [] if found["ready"] else list(found["reasons"])


def reports_problem(url: str, process: str, text: str) -> bool:
    """Whether `/readyz` of a node has a reason of this process with this text."""
    return any(reason.startswith(f"{process}: ") and text in reason for reason in unready_reasons(url))


def wait_for(condition: Callable[[], T], what: str, seconds: float = 50.0) -> T:
    """Waits until the condition is true and returns its value; UNREACHABLE errors count as false.

    Raises AssertionError after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(*UNREACHABLE):
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass(frozen=True)
class CompletedProgram:
    """Exit code and output of a program that ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The JSON object that is the only line on standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, f"expected one line: {self.out!r}, stderr {self.err!r}"
        found: dict[str, Any] = json.loads(lines[0])
        return found

    def lines(self) -> list[str]:
        """The lines on standard output of a successful command; its log on stderr may have warnings."""
        assert self.code == 0, self
        assert all(" lvl=warn " in line for line in self.err.splitlines()), self.err
        return self.out.splitlines()

    def error_line(self) -> str:
        """The only line on stderr of a program that failed at its start with exit code 1."""
        assert self.code == 1, self
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        assert "Traceback" not in self.out, self.out
        return self.err.rstrip("\n")


class Program:
    """A module that runs as a program in the folder of `watch`, with its output in files."""

    names = count()

    def __init__(self, watch: Leftovers, module: str, *words: str, **environment: str) -> None:
        self._out, self._err = (watch.folder / f"{next(self.names)}.{kind}" for kind in ("out", "err"))
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                cwd=watch.folder,
                env=watch.environment(**environment),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def out(self) -> str:
        """Its standard output so far."""
        return self._out.read_text(errors="replace")

    @property
    def err(self) -> str:
        """Its standard error so far."""
        return self._err.read_text(errors="replace")

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_line(self, word: str, seconds: float = 50.0) -> str:
        """Waits for the first line of the output that contains the word."""

        def line() -> str | None:
            has_ended = not self.running
            found = next((line for line in self.out.splitlines() if word in line), None)
            assert found or not has_ended, f"program ended without a line with {word!r}: {self.out} {self.err}"
            return found

        try:
            found = wait_for(line, f"line with {word!r}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.out[-3000:]} {self.err[-1000:]}") from None
        assert found is not None
        return found

    def wait_end(self, seconds: float = 50.0) -> CompletedProgram:
        """Waits for the end. Raises AssertionError and kills the program after `seconds`."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"program did not end within {seconds:g} s; {self.out[-2000:]} {self.err[-2000:]}"
            ) from None
        return CompletedProgram(code, self.out, self.err)

    def stop(self, seconds: float = 50.0) -> CompletedProgram:
        """Sends SIGTERM and waits for the end."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        return self.wait_end(seconds)

    def kill(self) -> None:
        """Sends SIGKILL and waits for the end."""
        if self.running:
            self.process.kill()
        self.process.wait()


class Devnet(Program):
    """`rollup-node devnet` with its data directory `net` and an L1 block per second."""

    nodes: tuple[str, ...] = ("sequencer", "verifier")

    def __init__(self, watch: Leftovers, *words: str, duration: float = 600.0, json: bool = True) -> None:
        self.root: Path = watch.folder / "net"
        pace = ("--l1-block-time", "1", "--l2-block-time", "1", "--duration", f"{duration:g}")
        form = ("--json",) if json else ()
        super().__init__(watch, "rollup_node.node", "devnet", "--data-dir", str(self.root), *pace, *form, *words)

    @property
    def network(self) -> dict[str, Any]:
        """The content of `network.json`, once it is written."""
        return self.wait(lambda: json.loads((self.root / "network.json").read_text()), "network.json")

    def wait(self, condition: Callable[[], T], what: str, seconds: float = 50.0) -> T:
        """As `wait_for`. Raises AssertionError as well where the network ends."""

        def check() -> T:
            assert self.running, f"the network ended while waiting for {what}: {self.out} {self.err}"
            return condition()

        try:
            return wait_for(check, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self, lines: int = 25) -> str:
        """The last lines of each program's log."""
        ends = []
        for path in sorted(self.root.glob("*.log")):
            ends += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(ends)

    def log(self, node: str) -> str:
        """The log of a program so far."""
        return (self.root / f"{node}.log").read_text(errors="replace")

    def node(self, name: str) -> dict[str, str]:
        """The URLs and files of a node."""
        found: dict[str, str] = self.network["nodes"][name]
        return found

    def processes(self, name: str) -> dict[str, dict[str, Any]]:
        """The first copy of each role in a node's `processes.json`, without a process that is being restarted.

        Raises FileNotFoundError while the node starts."""
        entries = json.loads(Path(self.node(name)["processes"]).read_text())
        return {entry["role"]: entry for entry in reversed(entries)}

    def entry(self, name: str, role: str) -> dict[str, Any]:
        """The entry of a process in a node's `processes.json`, once it runs."""
        found = self.wait(lambda: self.processes(name).get(role), f"{role} process of the {name}")
        assert found is not None
        return found

    def heads(self, name: str) -> dict[str, Any]:
        """The response of a node to optimism_syncStatus."""
        found: dict[str, Any] = call(self.node(name)["rpc"], "optimism_syncStatus")
        return found

    def safe(self, name: str = "verifier") -> int:
        """The number of a node's safe head."""
        return int(self.heads(name)["safe_l2"]["number"])

    def finalized(self, name: str) -> int:
        """The number of a node's finalized head."""
        return int(self.heads(name)["finalized_l2"]["number"])

    def wait_safe(self, number: int, name: str = "verifier", seconds: float = 50.0) -> None:
        """Waits until a node's safe head has at least this number."""
        self.wait(lambda: self.safe(name) >= number, f"safe head {number} of the {name}", seconds)

    def wait_started(self, seconds: float = 50.0) -> None:
        """Waits until all nodes have a safe block after genesis."""
        for name in self.nodes:
            self.wait_safe(1, name, seconds)

    def ready(self, name: str) -> bool:
        """Whether `/readyz` of a node has no reasons."""
        return not unready_reasons(self.node(name)["rpc"])

    def kill_process(self, name: str, role: str) -> None:
        """Kills a process of a node and waits for its restart."""
        before = self.entry(name, role)
        os.kill(before["pid"], signal.SIGKILL)
        self.wait_restarted(name, before)

    def wait_restarted(self, name: str, before: Mapping[str, Any]) -> None:
        """Waits until the process of an earlier entry of `processes.json` has a later incarnation."""

        def restarted() -> bool:
            after = self.processes(name).get(before["role"])
            return after is not None and after["incarnation"] > before["incarnation"]

        self.wait(restarted, f"restart of {before['role']} of the {name}")
        assert not is_alive(before["pid"])

    def finish(self, seconds: float = 50.0) -> dict[str, Any]:
        """Stops the network; its result, in which the output roots must be equal."""
        ended = self.stop(seconds)
        assert (ended.code, ended.err) == (0, ""), f"{ended}\n{self.logs()}"
        result = ended.result
        assert result["output_roots_equal"] is True
        assert result["blocks"] == result["safe"] + 1
        return result
