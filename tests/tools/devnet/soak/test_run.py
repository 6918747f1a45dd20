"""A soak from its start to its verdict, on a network of numbers."""

import asyncio
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain, count, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rollup_node.tools.devnet.child_programs import ChildPrograms
from rollup_node.tools.devnet.files import NetworkFiles
from rollup_node.tools.devnet.soak import run as runs
from rollup_node.tools.devnet.soak.lanes import ROLES, Action, Kind, Process
from rollup_node.tools.devnet.soak.report import ActionDone, Line, Minute, RunEnded, RunStarted
from rollup_node.tools.devnet.soak.run import Soak, SoakSettings
from rollup_node.tools.devnet.status import Comparison

ROOT = Path(__file__).parents[4]
NODES = ("sequencer", "verifier", "verifier-2")


async def _nothing(*_: Any) -> None:
    await asyncio.sleep(0)


class Programs:
    """A network whose processes are numbers, and whose safe heads grow by ten a second; killed ones are replaced."""

    def __init__(self, *_: Any) -> None:
        self.nodes = NODES
        self.heads: dict[str, int | None] = {}
        self._pids, self._began = count(100), time.monotonic()
        self._processes = {node: {role: Process(next(self._pids), 1) for role in ROLES} for node in NODES}

    def processes(self, node: str) -> dict[str, Process]:
        return dict(self._processes[node])

    def safe(self, node: str) -> int:
        return 5 + int(10 * (time.monotonic() - self._began))

    def send(self, process: Process, number: signal.Signals) -> None:
        (owner,) = [(node, role) for node in NODES for role, item in self.processes(node).items() if item == process]
        if number is signal.SIGKILL:
            asyncio.get_running_loop().call_later(0.3, self._replace, *owner)

    def _replace(self, node: str, role: str) -> None:
        self._processes[node][role] = Process(next(self._pids), 1)

    async def follow_heads(self) -> None:
        await asyncio.Event().wait()

    async def reorg(self, depth: int) -> None:
        """The network stays as it is."""

    start_proxies = close = _nothing


ACTIONS = Action(Kind.KILL, 0.05, "rpc"), Action(Kind.STOP, 0.05, "p2p", 0.1)


def then_nothing(*actions: Action) -> Callable[..., Iterator[Action]]:
    """Return a schedule of some actions, after which nothing happens for long."""
    return lambda *_, **__: chain(actions, repeat(Action(Kind.KILL, 100.0, "rpc")))


def play(root: Path) -> None:
    """Run a soak in this process, which adopts orphans from then on, and checks its report."""

    async def compare(nodes: dict[str, Any], last: int) -> Comparison:
        assert list(nodes) == list(NODES) and last > 5
        return Comparison(last + 1, None)

    for name, value in {
        "SoakPrograms": Programs,
        "compare_output_roots": compare,
        "node_actions": then_nothing(*ACTIONS),
        "l1_actions": then_nothing(Action(Kind.REORG, 0.3, amount=2)),
        "TICK_SECONDS": 0.05,
        "SAMPLE_SECONDS": 0.1,
        "MINUTE": 0.5,
        "LEFT_SECONDS": 0.3,
        "JsonRpcClient": lambda url: SimpleNamespace(close=_nothing),
        "Traffic": lambda *args: SimpleNamespace(send_round=_nothing),
    }.items():
        setattr(runs, name, value)

    lines: list[Line] = []
    children = ChildPrograms()

    network = SimpleNamespace(
        files=NetworkFiles(root),
        children=children,
        start=_nothing,
        l1="l1",
        engines={"sequencer": ("engine", "auth")},
        nodes=dict.fromkeys(NODES, "url"),
        reserved_ports=list,
    )
    settings = SoakSettings("1", 2.0, 1, 3, 9.0, ())
    ended = asyncio.run(Soak(settings, network, lines.append, lambda text: None).run())  # type: ignore[arg-type]
    _check(lines, ended)


def _check(lines: list[Line], ended: RunEnded) -> None:
    assert ended.problems == () and ended.equal and ended.blocks > 5, ended
    assert isinstance(lines[0], RunStarted) and lines[-1] == ended
    done = [line for line in lines if isinstance(line, ActionDone)]
    expected = [("l1", Kind.REORG), *((node, action.kind) for node in NODES for action in ACTIONS)]
    assert len(done) == 7 and {(item.node, item.kind) for item in done} == {*expected}
    assert all(item.recovery is not None and item.problem == "" for item in done)
    minutes = [line for line in lines if isinstance(line, Minute)]
    assert {minute.node for minute in minutes} == {*NODES, "soak"} and set(ended.trends) == {*NODES, "soak"}


def test_a_soak(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.tools.devnet.soak.test_run", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=55)
    assert result.returncode == 0, result.stderr


if __name__ == "__main__":
    play(Path(sys.argv[1]))
