"""A node of toy processes, started as a program, with its log lines."""

import contextlib
import json
import signal
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from tests.support.processes.forked_programs import TOY_NODE
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program
from tests.support.timing.slowness import within

T = TypeVar("T")
PROCESSES = {"left", "right", "copy-0", "copy-1"}
Line = dict[str, Any]


class _ToyProgram(Program):
    def __init__(self, leftovers: Leftovers, settings: Line, fresh: bool, options: dict[str, Any]) -> None:
        self.is_forked, self.options = not fresh, options
        super().__init__(leftovers, TOY_NODE, str(leftovers.folder), json.dumps(settings))


class ToyNode:
    """A running toy node."""

    def __init__(self, folder: Path, program: Program) -> None:
        self.folder, self._program, self.program = folder, program, program.process
        self._raw: list[bytes] = []
        self._parsed: list[Line] = []

    def _read(self) -> None:
        new = self._program.new_lines()
        self._raw += new
        self._parsed += [json.loads(line) for line in new if line.startswith(b"{")]

    @property
    def raw(self) -> list[bytes]:
        """What it has written to standard output since the start of the test."""
        self._read()
        return self._raw

    @property
    def lines(self) -> list[Line]:
        """The lines of the log in that."""
        self._read()
        return self._parsed

    def begin(self) -> None:
        """Begins a test with a node that runs: what it has logged before is no longer seen."""
        self._read()
        self._raw.clear()
        self._parsed.clear()

    def logged(self, message: str, process: str | None = None, **fields: object) -> list[Line]:
        """Return the log lines so far with that message and those fields."""
        wanted = {"msg": message, **({"process": process} if process else {}), **fields}
        return [line for line in self.lines if all(line.get(key) == value for key, value in wanted.items())]

    def wait(self, condition: Callable[[], T], what: str = "it") -> T:
        """Return the first true value of the condition. Fails after a time, or when the node exits before."""
        begin = time.monotonic()
        while not (result := condition()):
            if not within(time.monotonic() - begin, 40) or (self.program.poll() is not None and not condition()):
                raise AssertionError(f"timeout: {what}; the log:\n{self._program.out}")
            time.sleep(0.02)
        return result

    def wait_for_line(self, message: str, process: str | None = None, count: int = 1, **fields: object) -> Line:
        """Wait until there are `count` such log lines; the last of them."""
        self.wait(lambda: len(self.logged(message, process, **fields)) >= count, f"{message!r} {process} {fields}")
        return self.logged(message, process, **fields)[-1]

    def wait_until_ready(self) -> "ToyNode":
        """Wait until all processes are ready."""
        self.wait(lambda: any(line["msg"].endswith(" processes are ready") for line in self.lines), "it is ready")
        return self

    @cached_property
    def directory(self) -> Path:
        """Its runtime directory."""
        return Path(self.wait_for_line("starting node")["runtime_dir"])

    def processes(self) -> dict[str, Line]:
        """Return the entries of processes.json by the name of the process."""
        entries = json.loads((self.directory / "processes.json").read_text())
        names = [f"{e['role']}.{e['chain']}" if "chain" in e else e["role"] for e in entries]
        return {f"{n}-{e['copy']}" if n == "copy" else n: e for n, e in zip(names, entries, strict=True)}

    def wait_for_entry(self, name: str, incarnation: int) -> Line:
        """Wait for the entry of that incarnation in processes.json."""

        def entry() -> Line | None:
            result = self.processes().get(name)
            return result if result and result["incarnation"] == incarnation else None

        result = self.wait(entry, f"{name} has incarnation {incarnation}")
        assert result is not None
        return result

    def order(self, role: str, action: str) -> None:
        """Make a process of the role run an action (see toy_stages.py)."""
        new = self.folder / f"new-{role}"
        new.write_text(action)
        new.rename(self.folder / f"do-{role}")

    def wait_for_restart(self, name: str, incarnation: int = 2) -> None:
        """Wait until the process has been started again and the toys exchange messages."""
        self.wait_for_line("process started", "supervisor", name=name, incarnation=incarnation)
        self.wait_for_exchange()

    def wait_for_exchange(self, count: int = 1, chain: str = "") -> None:
        """Wait until the toys of a chain have exchanged so many messages more."""
        before = self.exchanged(chain)
        self.wait(lambda: self.exchanged(chain) not in range(before, before + count), "the toys exchange messages")

    def exchanged(self, chain: str = "") -> int:
        """Return the number of the last response that `right` of a chain got from `left`; 0 before the first."""
        return int(self.last_response(chain).partition(" ")[0] or 0)

    def last_response(self, chain: str = "") -> str:
        """Return the number and the size of that response."""
        with contextlib.suppress(OSError):
            return (self.folder / (f"response.{chain}" if chain else "response")).read_text()
        return ""

    def wait_for_exit(self, seconds: float = 50) -> tuple[int, str]:
        """Wait for its exit; exit code and standard error."""
        finished = self._program.wait_for_exit(seconds)
        return finished.code, finished.err

    def stop_order(self) -> list[str]:
        """Return the names of the processes in the order of their end."""
        return [line["name"] for line in self.logged("process ended", "supervisor")]

    def stop(self) -> None:
        """Stop it in order."""
        self.program.send_signal(signal.SIGTERM)
        assert self.wait_for_exit() == (0, "")


StartNode = Callable[..., ToyNode]
"""Starts a toy node with settings and options; one that is `fresh` imports its modules itself."""


@contextlib.contextmanager
def toy_nodes(leftovers: Leftovers) -> Iterator[StartNode]:
    """Yield a function that starts toy nodes; those that still run at the end are killed."""
    with contextlib.ExitStack() as stack:

        def start_one(settings: Line | None = None, fresh: bool = False, **options: Any) -> ToyNode:
            program = stack.enter_context(_ToyProgram(leftovers, settings or {}, fresh, options))
            return ToyNode(leftovers.folder, program)

        yield start_one
