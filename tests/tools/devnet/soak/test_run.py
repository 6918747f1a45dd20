"""A soak from its start to its verdict, on a network of numbers."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rollup_node.tools.devnet.child_programs import ChildPrograms
from rollup_node.tools.devnet.files import NetworkFiles
from rollup_node.tools.devnet.soak import run as runs
from rollup_node.tools.devnet.soak.lanes import Action, Kind
from rollup_node.tools.devnet.soak.report import ActionDone, Line, Minute, RunEnded, RunStarted
from rollup_node.tools.devnet.soak.run import Soak, SoakSettings
from rollup_node.tools.devnet.status import Comparison
from tests.support.processes.soak_network import SoakNetwork

PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.tools.devnet.soak.test_run import play_all
play_all(Path(sys.argv[2]))
"""
NODES = ("sequencer", "verifier", "verifier-2")


class Programs(SoakNetwork):
    """The network of numbers with what a soak needs besides."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*NODES)
        self.heads: dict[str, int | None] = {}

    def safe(self, node: str) -> int | None:
        result = super().safe(node)
        # Ten blocks a second, as a test has little time.
        now = asyncio.get_running_loop().time()
        return None if result is None or self._began is None else 5 + int(10 * (now - self._began))

    async def start_proxies(self) -> None:
        self.calls.append("proxies")

    async def follow_heads(self) -> None:
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.calls.append("close")


def actions(*args: Any, **kwargs: Any) -> Iterator[Action]:
    """Return a kill and a stop, then nothing for long."""
    first = Action(Kind.KILL, 0.05, "rpc"), Action(Kind.STOP, 0.05, "p2p", 0.1)
    return chain(first, repeat(Action(Kind.KILL, 100.0, "rpc")))


def play(root: Path, case: str) -> None:
    """Run a soak in this process, which adopts orphans from then on, and checks its report."""

    async def compare(nodes: dict[str, Any], last: int) -> Comparison:
        assert list(nodes) == list(NODES) and last > 5
        return Comparison(last + 1, 3 if case == "left" else None)

    for name, value in {
        "SoakPrograms": Programs,
        "compare_output_roots": compare,
        "node_actions": actions,
        "l1_actions": lambda *args: iter([Action(Kind.REORG, 0.3, amount=2), Action(Kind.REORG, 100.0)]),
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

    async def start() -> None:
        if case == "exit":
            children.start("verifier node", [sys.executable, "-c", "exit(3)"], root / "log")
        if case.startswith("signal"):
            loop = asyncio.get_running_loop()
            loop.call_later(0.8, os.kill, os.getpid(), signal.SIGINT)
            if case == "signals":
                loop.call_later(0.81, os.kill, os.getpid(), signal.SIGTERM)
        if case == "left":
            children.start("node", ["/bin/sh", "-c", "sleep 30 & exec sleep 31"], root / "log")

    network = SimpleNamespace(
        files=NetworkFiles(root),
        children=children,
        start=start,
        l1="l1",
        engines={"sequencer": ("engine", "auth")},
        nodes=dict.fromkeys(NODES, "url"),
        reserved_ports=list,
    )
    settings = SoakSettings("1", 50.0 if case.startswith("signal") else 2.0, 1, 3, 9.0, ())
    ended = asyncio.run(Soak(settings, network, lines.append, lambda text: None).run())  # type: ignore[arg-type]
    CHECKS[case](lines, ended)


def play_all(root: Path) -> None:
    """Run all soaks one after another, and prints for each that it was as it should be, or what was wrong."""
    for case in CHECKS:
        folder = root / case
        folder.mkdir()
        try:
            play(folder, case)
        except Exception as error:
            print(case, f"{type(error).__name__}: {error}".replace("\n", " "), flush=True)
        else:
            print(case, "as it should be", flush=True)


async def _nothing() -> None:
    await asyncio.sleep(0)


def _passes(lines: list[Line], ended: RunEnded) -> None:
    assert ended.problems == () and ended.equal and ended.blocks > 5, ended
    assert isinstance(lines[0], RunStarted) and lines[-1] == ended
    done = [line for line in lines if isinstance(line, ActionDone)]
    assert sorted((item.node, item.kind.value) for item in done) == sorted(
        [("l1", "reorg"), *((node, kind) for node in NODES for kind in ("kill", "stop"))]
    )
    assert all(item.recovery is not None and item.problem == "" for item in done)
    minutes = [line for line in lines if isinstance(line, Minute)]
    assert {minute.node for minute in minutes} == {*NODES, "soak"} and set(ended.trends) == {*NODES, "soak"}


def _exits(lines: list[Line], ended: RunEnded) -> None:
    assert not ended.equal and "verifier node exited (exit code 3)" in ended.problems[0]


def _leaves(lines: list[Line], ended: RunEnded) -> None:
    """The output roots differ too."""
    assert not ended.equal and len(ended.problems) == 2
    assert ended.problems[0].endswith("the output roots of block 3 differ")
    assert "sleep 30) is left behind" in ended.problems[1], ended.problems


def _ends_early(lines: list[Line], ended: RunEnded) -> None:
    assert ended.equal and ended.problems == () and ended.seconds < 30


def _ends_at_once(lines: list[Line], ended: RunEnded) -> None:
    assert not ended.equal and ended.seconds < 30
    assert [text.partition(": ")[2] for text in ended.problems] == ["ended by a signal without a comparison"]


CHECKS: dict[str, Callable[[list[Line], RunEnded], None]] = {
    "passes": _passes,
    "exit": _exits,
    "left": _leaves,
    "signal": _ends_early,
    "signals": _ends_at_once,
}


@pytest.fixture(scope="module")
def soaks(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], str]:
    """Return what the program says of each case, and its standard error."""
    root = Path(__file__).parents[4]
    command = [sys.executable, "-c", PROGRAM, str(root), str(tmp_path_factory.mktemp("soaks"))]
    result = subprocess.run(command, capture_output=True, text=True, timeout=55)
    said = (line.partition(" ") for line in result.stdout.splitlines())
    return {case: text for case, _, text in said}, result.stderr


@pytest.mark.parametrize("case", CHECKS)
def test_a_soak(soaks: tuple[dict[str, str], str], case: str) -> None:
    said, errors = soaks
    assert said.get(case) == "as it should be", errors


def test_the_network_of_a_soak() -> None:
    devnet = SoakSettings("1", 60.0, 1, 5, 9.0, ()).devnet()
    assert devnet.nodes == ("sequencer", "verifier", "verifier-2", "verifier-3", "verifier-4")
    assert devnet.keeps_engines and (devnet.l1_block_time, devnet.l2_block_time) == (4, 2)
