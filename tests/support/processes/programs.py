"""Programs under test as subprocesses: their output in files, their end bounded, and JSON-RPC over HTTP to them."""

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
from types import MappingProxyType
from typing import Any, Self, TypeVar

from tests.support.processes.forked_programs import COMMANDS, ForkedProgram, shared_fork_server
from tests.support.processes.leftovers import Leftovers
from tests.support.timing.slowness import within

ROOT = Path(__file__).parents[3]
T = TypeVar("T")
WAIT_SECONDS = 50.0
UNREACHABLE = (OSError, http.client.HTTPException, json.JSONDecodeError)
"""What a call raises while its server does not respond."""
OUTPUT_FIELDS = ("version", "outputRoot", "blockRef", "withdrawalStorageRoot", "stateRoot")


class RpcError(Exception):
    """A JSON-RPC error object."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(f"{error.get('code')}: {error.get('message')}")
        self.code, self.message = error.get("code"), str(error.get("message"))


def call(url: str, method: str, *params: Any, seconds: float = 30.0) -> Any:
    """Return the result of one JSON-RPC call.

    Raises RpcError for an error object, one of UNREACHABLE without a response."""
    response = _post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, seconds)
    if "error" in response:
        raise RpcError(response["error"])
    return response["result"]


def call_batch(url: str, *calls: tuple[Any, ...]) -> list[Any]:
    """Return the results of a batch of JSON-RPC calls, each a method with its parameters; none may be an error."""
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, *params) in enumerate(calls)
    ]
    results = {response["id"]: response["result"] for response in _post(url, batch, 30.0)}
    return [results[number] for number in range(len(calls))]


def assert_same_outputs(one: str, other: str, last: int) -> dict[str, Any]:
    """Assert that two nodes have the same output for every block up to the last one, whose reference comes back."""
    calls = [("optimism_outputAtBlock", hex(number)) for number in range(last + 1)]
    outputs, others = (
        [{field: output[field] for field in OUTPUT_FIELDS} for output in call_batch(url, *calls)]
        for url in (one, other)
    )
    assert outputs == others
    result: dict[str, Any] = outputs[-1]["blockRef"]
    return result


def _post(url: str, body: Any, seconds: float) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=seconds) as response:
        return json.load(response)


def http_get(url: str, seconds: float = 30.0) -> tuple[int, str]:
    """Status and text of an HTTP resource, whatever the status."""
    try:
        with urllib.request.urlopen(url, timeout=seconds) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def unready_reasons(url: str) -> list[str]:
    """Why the node at that URL is not ready, by `/readyz`; empty when it is."""
    status, text = http_get(url + "/readyz")
    readiness = json.loads(text)
    assert (status == 200) is readiness["ready"] and status in (200, 503)
    return [] if readiness["ready"] else list(readiness["reasons"])


def reports_problem(url: str, process: str, text: str) -> bool:
    """Whether a node is not ready because of that process, with that text in the reason."""
    return any(reason.startswith(f"{process}: ") and text in reason for reason in unready_reasons(url))


def wait_for(condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS, every: float = 0.05) -> T:
    """Return the first true value of the condition, which is asked every so many seconds, and counts as false while a
    server does not respond."""
    begin = time.monotonic()
    while True:
        with contextlib.suppress(*UNREACHABLE):
            if result := condition():
                return result
        assert within(time.monotonic() - begin, seconds), f"timeout after {seconds:g} s: {what}"
        time.sleep(every)


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def process_entries(runtime_dir: Path) -> dict[str, dict[str, Any]]:
    """Return the entries of `processes.json` as it is now: by role, those of a chain by `ROLE.CHAIN`, the first copy of
    each.

    The file may not exist yet, and a process that is being restarted is not in it."""
    entries = json.loads((runtime_dir / "processes.json").read_text())
    return {".".join(filter(None, (entry["role"], entry.get("chain")))): entry for entry in reversed(entries)}


@dataclass(frozen=True)
class FinishedProgram:
    """Exit code, standard output and standard error of a program that has exited."""

    code: int
    out: str
    err: str

    def json_result(self) -> dict[str, Any]:
        """Return the single line of JSON on standard output."""
        lines = self.out.splitlines()
        assert len(lines) == 1, f"one line was expected: {self.out!r}, stderr {self.err!r}"
        result: dict[str, Any] = json.loads(lines[0])
        return result

    def lines(self) -> list[str]:
        """Return the standard output of a command that succeeded; its log, on stderr, may warn of a slow machine."""
        assert self.code == 0, self
        assert all(" lvl=warn " in line for line in self.err.splitlines()), self.err
        return self.out.splitlines()

    def error_line(self) -> str:
        """Return the single line on stderr of a program that failed at its start with exit code 1."""
        assert self.code == 1, self
        assert self.err.count("\n") == 1 and self.err.endswith("\n"), self.err
        assert "Traceback" not in self.out, self.out
        return self.err.rstrip("\n")


class Program:
    """A Python module run as a program in the folder of `leftovers`, in a session of its own: Linux shares CPU time by
    sessions, so that a program gets as much as all the tests together.

    A server forks those of COMMANDS, since their imports are most of what a start takes, unless `is_forked` is false or
    there is a PYTHONPATH. Other modules of the tests are found from anywhere."""

    is_forked = True
    options: Mapping[str, Any] = MappingProxyType({})
    """More for Popen or ForkedProgram, such as other streams than files, and no input."""
    _numbers = count()

    def __init__(self, leftovers: Leftovers, module: str, *words: str, **environment: str) -> None:
        number = next(self._numbers)
        self._out, self._err = (leftovers.folder / f"{number}.{kind}" for kind in ("out", "err"))
        path = {"PYTHONPATH": str(ROOT)} if module.startswith("tests.") else {}
        folder, environ = leftovers.folder, leftovers.environment(**{**path, **environment})
        self.process: subprocess.Popen[bytes] | ForkedProgram
        self._lines_end = 0
        with self._out.open("wb") as out, self._err.open("wb") as err:
            options = {"stdout": out.fileno(), "stderr": err.fileno(), **self.options}
            if self.is_forked and "PYTHONPATH" not in environment and module in COMMANDS:
                self.process = ForkedProgram(shared_fork_server(), COMMANDS[module], words, folder, environ, **options)
            else:
                self.process = subprocess.Popen(
                    [*self._start_of_command(module), *words],
                    cwd=folder,
                    env=environ,
                    start_new_session=True,
                    **{"stdin": subprocess.DEVNULL, **options},
                )
        leftovers.children.append(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @staticmethod
    def _start_of_command(module: str) -> tuple[str, ...]:
        return (sys.executable, "-m", module)

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

    def new_lines(self) -> list[bytes]:
        """Return the whole lines of its standard output since the last call."""
        with self._out.open("rb") as out:
            out.seek(self._lines_end)
            lines = [line for line in out if line.endswith(b"\n")]
        self._lines_end += sum(map(len, lines))
        return lines

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def wait_for_line(self, text: str, *, on_stderr: bool = False) -> str:
        """Return the first line of its output that contains the text. Fails when the program exits before."""

        def line() -> str | None:
            has_exited = not self.running
            lines = (self.err if on_stderr else self.out).splitlines()
            result = next((line for line in lines if text in line), None)
            assert result or not has_exited, f"it exited without the line {text!r}: {self.out} {self.err}"
            return result

        try:
            result = wait_for(line, f"the line {text!r}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.out[-3000:]} {self.err[-3000:]}") from None
        assert result is not None
        return result

    def printed(self, line: str, name: str) -> str:
        """Return the word that follows a name in the first line of its output that contains `line`."""
        words = self.wait_for_line(line).split()
        return words[words.index(name) + 1]

    def port(self, server: str = "rpc") -> int:
        """Return the port that a server of a node listens on."""
        return int(self.wait_for_line(f'"{server} server is listening"').partition("port=")[2].split()[0])

    def wait_for_exit(self, seconds: float = WAIT_SECONDS) -> FinishedProgram:
        """Wait for its exit; a program that takes longer is killed, and the test fails."""
        try:
            wait_for(lambda: not self.running, "its exit", seconds, every=0.01)
        except AssertionError:
            self.kill()
            raise AssertionError(
                f"it did not exit within {seconds:g} s; {self.out[-2000:]} {self.err[-2000:]}"
            ) from None
        return FinishedProgram(self.process.wait(), self.out, self.err)

    def stop(self, seconds: float = WAIT_SECONDS) -> FinishedProgram:
        """Terminates it and waits for its exit."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        return self.wait_for_exit(seconds)

    def kill(self) -> None:
        """Kills it, if it runs."""
        if self.running:
            self.process.kill()
        self.process.wait()


class EmbeddedL1(Program):
    """The embedded L1 on a genesis file, with a block a second."""

    def __init__(self, leftovers: Leftovers, genesis: Path | str, *flags: str) -> None:
        words = ("--genesis", str(genesis), "--slot-time", "1", *flags)
        super().__init__(leftovers, "rollup_node.tools.devnet.l1", *words)

    @property
    def url(self) -> str:
        return self.printed("L1 ", "L1")

    @property
    def beacon(self) -> str:
        return self.printed("L1 ", "beacon")


class EmbeddedEngine(Program):
    """The embedded engine on a genesis file, at free ports. `http` is its public, `auth` its authenticated URL."""

    def __init__(
        self,
        leftovers: Leftovers,
        genesis: Path | str,
        jwt: Path | str,
        *flags: str,
        ports: tuple[int, int] = (0, 0),
    ) -> None:
        words = ("--genesis", str(genesis), "--jwt", str(jwt), "--http", str(ports[0]), "--auth", str(ports[1]))
        super().__init__(leftovers, "rollup_node.tools.devnet.engine", *words, *flags)

    @property
    def http(self) -> str:
        return self.printed("genesis ", "http")

    @property
    def auth(self) -> str:
        return self.printed("genesis ", "auth")


def as_json(numbers: Mapping[str, float]) -> str:
    """Return the value of NUMBERS for a forked node or network: other numbers in its modules, by dotted name."""
    return json.dumps(dict(numbers))


CALLDATA = ("--da", "calldata")
"""Makes the batcher of a Devnet post calldata: without blobs no program loads the KZG setup, which takes 1.5 s."""


class Devnet(Program):
    """A local network (`rollup-node devnet`) with its data directory `net`; one second between blocks."""

    nodes: tuple[str, ...] = ("sequencer", "verifier")

    def __init__(
        self,
        leftovers: Leftovers,
        *words: str,
        duration: float = 600.0,
        json: bool = True,
        numbers: Mapping[str, float] = MappingProxyType({}),
        **environment: str,
    ) -> None:
        self.root = leftovers.folder / "net"
        # That of a network of another test in this folder would be taken for this one's.
        (self.root / "network.json").unlink(missing_ok=True)
        pace = ("--l1-block-time", "1", "--l2-block-time", "1", "--duration", f"{duration:g}")
        form = ("--json",) if json else ()
        command = ("devnet", "--data-dir", str(self.root), *pace, *form, *words)
        super().__init__(leftovers, "rollup_node", *command, ROLLUP_NODE_TEST_NUMBERS=as_json(numbers), **environment)

    @property
    def network(self) -> dict[str, Any]:
        """`network.json`, once the programs of the network have been started."""
        return self.wait(lambda: json.loads((self.root / "network.json").read_text()), "network.json")

    def wait(self, condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS, every: float = 0.2) -> T:
        """`wait_for`, which fails at once when the network ends, and shows its logs."""

        def check() -> T:
            assert self.running, f"the network ended before {what}: {self.out} {self.err}"
            return condition()

        try:
            # Each request costs as much as a network does in 10 ms, where blocks come each second.
            return wait_for(check, what, seconds, every)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.logs()}") from None

    def logs(self, lines: int = 25) -> str:
        """Return the last lines of the logs of all programs."""
        ends = []
        for path in sorted(self.root.glob("*.log")):
            ends += [f"--- {path.name}", *path.read_text(errors="replace").splitlines()[-lines:]]
        return "\n".join(ends)

    def log(self, node: str) -> str:
        """Return the log of one node so far."""
        return (self.root / f"{node}.log").read_text(errors="replace")

    def node(self, name: str) -> dict[str, str]:
        """URLs and files of a node."""
        result: dict[str, str] = self.network["nodes"][name]
        return result

    def processes(self, name: str) -> dict[str, dict[str, Any]]:
        """Return the entries of the processes of a node, as `process_entries` does."""
        return process_entries(Path(self.node(name)["processes"]).parent)

    def process_entry(self, name: str, role: str) -> dict[str, Any]:
        """Return the entry of a process in `processes.json` of a node, once it runs."""
        result = self.wait(lambda: self.processes(name).get(role), f"{role} of the {name} runs")
        assert result is not None
        return result

    def sync_status(self, name: str) -> dict[str, Any]:
        """`optimism_syncStatus` of a node."""
        result: dict[str, Any] = call(self.node(name)["rpc"], "optimism_syncStatus")
        return result

    def safe_number(self, name: str = "verifier") -> int:
        """Return the number of a node's safe head."""
        return int(self.sync_status(name)["safe_l2"]["number"])

    def finalized_number(self, name: str) -> int:
        """Return the number of a node's finalized head."""
        return int(self.sync_status(name)["finalized_l2"]["number"])

    def recorded_safe_heads(self) -> list[dict[str, Any]]:
        """Return the safe heads at all L1 blocks that every node has derived, which are the same for all of them."""

        def derived() -> int:
            return max(0, min(int(self.sync_status(name)["current_l1"]["number"]) for name in self.nodes) - 1)

        last, result = self.wait(derived, "L1 blocks that all nodes have derived"), []
        for name in self.nodes:
            url = self.node(name)["rpc"]
            result.append(call_batch(url, *(("optimism_safeHeadAtL1Block", hex(number)) for number in range(last + 1))))
        assert all(item == result[0] for item in result), f"the nodes recorded different safe heads: {result}"
        return result[0]

    def wait_for_safe(self, number: int, name: str = "verifier") -> None:
        """Wait until a node's safe head has at least that number."""
        self.wait(lambda: self.safe_number(name) >= number, f"the safe head of the {name} is {number}")

    def wait_for_first_safe(self) -> None:
        """Wait until all nodes have a safe block after genesis."""
        for name in self.nodes:
            self.wait_for_safe(1, name)

    def is_ready(self, name: str) -> bool:
        """Whether a node is ready, by `/readyz`."""
        return not unready_reasons(self.node(name)["rpc"])

    def kill_process(self, name: str, role: str) -> None:
        """Kills one process of a node and waits for its restart."""
        before = self.process_entry(name, role)
        os.kill(before["pid"], signal.SIGKILL)
        self.wait_for_restart(name, before)

    def wait_for_restart(self, name: str, before: Mapping[str, Any]) -> None:
        """Wait for the incarnation that follows an entry of `processes.json`."""

        def restarted() -> bool:
            after = self.processes(name).get(before["role"])
            return after is not None and after["incarnation"] > before["incarnation"]

        self.wait(restarted, f"{before['role']} of the {name} is restarted")
        assert not is_alive(before["pid"])

    def finish(self, seconds: float = WAIT_SECONDS) -> dict[str, Any]:
        """Stop the network in order; its result, whose output roots must be equal."""
        finished = self.stop(seconds)
        assert (finished.code, finished.err) == (0, ""), f"{finished}\n{self.logs()}"
        result = finished.json_result()
        assert result["output_roots_equal"] is True
        assert result["blocks"] == result["safe"] + 1
        return result
