"""Programs under test as subprocesses: their output in files, their end bounded, and what can be asked over HTTP."""

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


class RpcAnswer(Exception):
    """A JSON-RPC error object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.message = error.get("code"), str(error.get("message"))


def call(url: str, method: str, *params: Any, seconds: float = 30.0) -> Any:
    """The result of one JSON-RPC call; RpcAnswer for an error object, one of UNREACHABLE when nobody answers."""
    answer = _post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, seconds)
    if "error" in answer:
        raise RpcAnswer(answer["error"])
    return answer["result"]


def call_all(url: str, *calls: tuple[Any, ...], seconds: float = 30.0) -> list[Any]:
    """The results of a batch of JSON-RPC calls, each a method with its parameters; none may be an error."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, *params) in enumerate(calls)
    ]
    answers = {answer["id"]: answer["result"] for answer in _post(url, batch, seconds)}
    return [answers[number] for number in range(len(calls))]


def _post(url: str, body: Any, seconds: float) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=seconds) as response:
        return json.load(response)


def get(url: str, seconds: float = 30.0) -> tuple[int, str]:
    """Status and text of an HTTP resource, whatever the status."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def reasons(url: str) -> list[str]:
    """Why the node at that URL is not ready, by `/readyz`; nothing when it is."""
    status, text = get(url + "/readyz")
    answer = json.loads(text)
    assert (status == 200) is answer["ready"] and status in (200, 503)
    return [] if answer["ready"] else list(answer["reasons"])


def is_told(url: str, process: str, text: str) -> bool:
    """Whether a node gives a reason of that process, with that text in it, for not being ready."""
    return any(reason.startswith(f"{process}: ") and text in reason for reason in reasons(url))


def wait_for(condition: Callable[[], T], what: str, seconds: float = 50.0) -> T:
    """Waits until the condition gives something that counts as true; while nobody answers it counts as false."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(*UNREACHABLE):
            if found := condition():
                return found
        assert time.monotonic() < deadline, f"waited {seconds:g} s in vain for {what}"
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@dataclass(frozen=True)
class Ended:
    """How a program ended."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The one line of JSON on standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, f"one line was expected: {self.out!r}, stderr {self.err!r}"
        found: dict[str, Any] = json.loads(lines[0])
        return found

    def lines(self) -> list[str]:
        """The standard output of a command that did its work; its log, on stderr, may warn of a slow machine."""
        assert self.code == 0, self
        assert all(" lvl=warn " in line for line in self.err.splitlines()), self.err
        return self.out.splitlines()

    def one_line(self) -> str:
        """The one clear line of a program that ends at its start: exit code 1, nothing but that line on stderr."""
        assert self.code == 1, self
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        assert "Traceback" not in self.out, self.out
        return self.err.rstrip("\n")


class Program:
    """A module run as a program in a watched folder (`Leftovers` of the tests' conftest)."""

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

    def say(self, word: str, seconds: float = 50.0) -> str:
        """Waits for the first line of its output that contains the word."""

        def line() -> str | None:
            has_ended = not self.running
            found = next((line for line in self.out.splitlines() if word in line), None)
            assert found or not has_ended, f"it ended without saying {word!r}: {self.out} {self.err}"
            return found

        try:
            found = wait_for(line, f"the line with {word!r}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.out[-3000:]} {self.err[-1000:]}") from None
        assert found is not None
        return found

    def end(self, seconds: float = 50.0) -> Ended:
        """Waits for its end; a program that takes longer is killed, and fails the test."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"it did not end within {seconds:g} s; {self.out[-2000:]} {self.err[-2000:]}"
            ) from None
        return Ended(code, self.out, self.err)

    def stop(self, seconds: float = 50.0) -> Ended:
        """Asks it to end, and waits."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        return self.end(seconds)

    def kill(self) -> None:
        """Ends it the hard way."""
        if self.running:
            self.process.kill()
        self.process.wait()


class Devnet(Program):
    """A local network (`rollup-node devnet`) with its data directory `net`; one second between L1 blocks."""

    nodes = ("sequencer", "verifier")

    def __init__(self, watch: Leftovers, *words: str, duration: float = 600.0, json: bool = True) -> None:
        self.root: Path = watch.folder / "net"
        pace = ("--l1-block-time", "1", "--l2-block-time", "1", "--duration", f"{duration:g}")
        form = ("--json",) if json else ()
        super().__init__(watch, "rollup_node.node", "devnet", "--data-dir", str(self.root), *pace, *form, *words)

    @property
    def network(self) -> dict[str, Any]:
        """`network.json`, once the programs of the network are started."""
        return self.wait(lambda: json.loads((self.root / "network.json").read_text()), "network.json")

    def wait(self, condition: Callable[[], T], what: str, seconds: float = 50.0) -> T:
        def check() -> T:
            assert self.running, f"the network ended while {what} was waited for: {self.out} {self.err}"
            return condition()

        try:
            return wait_for(check, what, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self, lines: int = 25) -> str:
        """The ends of the programs' logs."""
        ends = []
        for path in sorted(self.root.glob("*.log")):
            ends += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(ends)

    def log(self, node: str) -> str:
        """The log of one program so far."""
        return (self.root / f"{node}.log").read_text(errors="replace")

    def node(self, name: str) -> dict[str, str]:
        """URLs and files of a node."""
        found: dict[str, str] = self.network["nodes"][name]
        return found

    def processes(self, name: str) -> dict[str, dict[str, Any]]:
        """A node's `processes.json` by role (the first copy of each), as it is now: it comes with the node, and a row
        between two lives is not in it."""
        entries = json.loads(Path(self.node(name)["processes"]).read_text())
        return {entry["role"]: entry for entry in reversed(entries)}

    def entry(self, name: str, role: str) -> dict[str, Any]:
        """The entry of a row in a node's `processes.json`, once it lives."""
        found = self.wait(lambda: self.processes(name).get(role), f"{role} of the {name} to live")
        assert found is not None
        return found

    def heads(self, name: str) -> dict[str, Any]:
        """`optimism_syncStatus` of a node."""
        found: dict[str, Any] = call(self.node(name)["rpc"], "optimism_syncStatus")
        return found

    def safe(self, name: str = "verifier") -> int:
        """The number of a node's safe head."""
        return int(self.heads(name)["safe_l2"]["number"])

    def finalized(self, name: str) -> int:
        """The number of a node's finalized head."""
        return int(self.heads(name)["finalized_l2"]["number"])

    def wait_safe(self, number: int, name: str = "verifier", seconds: float = 50.0) -> None:
        """Waits until a node's safe head is at least there."""
        self.wait(lambda: self.safe(name) >= number, f"the safe head {number} of the {name}", seconds)

    def wait_up(self, seconds: float = 50.0) -> None:
        """Waits until both nodes have a safe block beyond genesis."""
        for name in self.nodes:
            self.wait_safe(1, name, seconds)

    def ready(self, name: str) -> bool:
        """Whether a node says that it is ready."""
        return not reasons(self.node(name)["rpc"])

    def kill_row(self, name: str, role: str) -> None:
        """Kills one process of a node, and waits for the next life of its row."""
        before = self.entry(name, role)
        os.kill(before["pid"], signal.SIGKILL)
        self.wait_replaced(name, before)

    def wait_replaced(self, name: str, before: Mapping[str, Any]) -> None:
        """Waits for the life of a row that follows an entry of `processes.json`."""

        def replaced() -> bool:
            after = self.processes(name).get(before["role"])
            return after is not None and after["incarnation"] > before["incarnation"]

        self.wait(replaced, f"{before['role']} of the {name} to be replaced")
        assert not is_alive(before["pid"])

    def finish(self, seconds: float = 50.0) -> dict[str, Any]:
        """Ends the network in order; its result, which must be equal output roots."""
        ended = self.stop(seconds)
        assert (ended.code, ended.err) == (0, ""), f"{ended}\n{self.logs()}"
        result = ended.result
        assert result["output_roots_equal"] is True
        assert result["blocks"] == result["safe"] + 1
        return result
