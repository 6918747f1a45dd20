"""A node of toy processes, started as a program, with its log lines."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOY_NODE = Path(__file__).parent / "toy_node.py"
ROWS = {"left", "right", "hand-0", "hand-1"}
Line = dict[str, Any]


class Node:
    """A running toy node with its log lines."""

    def __init__(self, leftovers: Any, settings: Line, **options: Any) -> None:
        self.folder: Path = leftovers.folder
        self.program = subprocess.Popen(
            [sys.executable, str(TOY_NODE), str(self.folder), json.dumps(settings)],
            cwd=self.folder,
            env=leftovers.environment(),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "start_new_session": True} | options,
        )
        self.raw: list[bytes] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        if self.program.stdout is not None:
            self.reader.start()

    def _read(self) -> None:
        assert self.program.stdout is not None
        self.raw.extend(self.program.stdout)

    @property
    def lines(self) -> list[Line]:
        """The log so far."""
        return [json.loads(line) for line in list(self.raw) if line.startswith(b"{")]

    def said(self, message: str, process: str | None = None, **fields: object) -> list[Line]:
        """The lines with that message and those fields."""
        wanted = {"msg": message, **({"process": process} if process else {}), **fields}
        return [line for line in self.lines if all(line.get(key) == value for key, value in wanted.items())]

    def wait(self, condition: Callable[[], Any], what: str = "it", seconds: float = 40) -> Any:
        """Waits until the condition gives something."""
        deadline = time.monotonic() + seconds
        while not (found := condition()):
            if time.monotonic() > deadline or (self.program.poll() is not None and not condition()):
                raise AssertionError(f"waited for {what}; the log:\n{b''.join(self.raw).decode()}")
            time.sleep(0.01)
        return found

    def hear(self, message: str, process: str | None = None, count: int = 1, **fields: object) -> Line:
        """Waits for a line."""
        self.wait(lambda: len(self.said(message, process, **fields)) >= count, f"{message!r} {process} {fields}")
        return self.said(message, process, **fields)[-1]

    def ready(self) -> "Node":
        """Waits until all rows are ready."""
        self.hear("node is ready")
        return self

    @property
    def directory(self) -> Path:
        """Its runtime directory."""
        return Path(self.hear("node starts")["runtime_dir"])

    def processes(self) -> dict[str, Line]:
        """The processes by name, as processes.json has them."""
        entries = json.loads((self.directory / "processes.json").read_text())
        return {f"{e['role']}-{e['copy']}" if e["role"] == "hand" else e["role"]: e for e in entries}

    def order(self, role: str, what: str) -> None:
        """Makes a process of the role do something."""
        new = self.folder / f"new-{role}"
        new.write_text(what)
        new.rename(self.folder / f"do-{role}")

    def restarted(self, name: str, incarnation: int = 2) -> None:
        """Waits until the process lives again and the toys talk."""
        self.hear("process started", "supervisor", name=name, incarnation=incarnation)
        learnt = self.learnt()
        self.wait(lambda: self.learnt() not in ("", learnt), "the toys to talk")

    def learnt(self) -> str:
        with contextlib.suppress(OSError):
            return (self.folder / "learnt").read_text()
        return ""

    def end(self, seconds: float = 50) -> tuple[int, str]:
        """Waits for the end; exit code and stderr."""
        code = self.program.wait(seconds)
        if self.reader.is_alive():
            self.reader.join(20)
        return code, self.program.stderr.read().decode() if self.program.stderr else ""

    def stop(self) -> None:
        """An orderly end."""
        self.program.send_signal(signal.SIGTERM)
        assert self.end() == (0, "")
