"""What a soak says at its end: the sums of its report, what it calls a problem, and when a node has recovered."""

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from rollup_node.tools.devnet.soak import lanes
from rollup_node.tools.devnet.soak.family import Usage
from rollup_node.tools.devnet.soak.lanes import ROLES, Action, Disturbed, Done, Kind, Lane, Process
from rollup_node.tools.devnet.soak.report import (
    ActionDone,
    Line,
    NodeTrend,
    ReportError,
    RunEnded,
    RunStarted,
    add_up,
    encode,
    table,
)
from rollup_node.tools.devnet.soak.watch import NodeWatch

TREND = NodeTrend((100.0, 110.0), (50.0, 51.0), None, 12.0, 300)
LINES: list[Line] = [
    RunStarted("1", 0.0, 7, 4, "abc", "2 cores", 9.0),
    *(ActionDone("1", 10.0 * at, "verifier", Kind.KILL, "rpc", 0.0, 0, 0.5 * at) for at in range(1, 5)),
    ActionDone("1", 50.0, "verifier-2", Kind.STOP, "p2p", 0.1, 0, None, "no recovery"),
    RunEnded("1", 3600.0, 900, True, 1.5, {"verifier": TREND}, ("1, 50 s: verifier-2: no recovery",)),
    RunStarted("2", 0.0, 8, 4, "abc", "2 cores", 9.0),
    RunEnded("2", 60.0, 5, False, 1.5, {}, ()),
    RunStarted("3", 0.0, 9, 4, "abc", "2 cores", 9.0),
]


def test_the_sums_of_a_report() -> None:
    """An incomplete last line, of a run that was killed, does not count."""
    shown = list(table(add_up([*map(encode, LINES), b'{"type":"end"'])))
    assert [line for line in shown if line.startswith(("| Time", "| Kills", "| Other", "| Without", "| Safe"))] == [
        "| Time | 1.02 hours in 3 runs |",
        "| Kills | 4 |",
        "| Other actions | 1 |",
        "| Without recovery | 1 |",
        "| Safe blocks compared | 905 |",
    ]
    for row in (
        "| kill rpc | 4 | 1.0 | 2.0 | 2.0 |",
        "| stop | 1 | - | - | - |",
        "| all | 5 | 1.0 | 2.0 | 2.0 |",
        "| 1 | abc | 7 | 4 | 60 | 4 | 5 | 900 | equal roots, 1 problems | 1.5 | 2 cores |",
        "| 2 | abc | 8 | 4 | 1 | 0 | 0 | 5 | output roots differ | 1.5 | 2 cores |",
        "| 3 | abc | 9 | 4 | 0 | 0 | 0 | - | did not end | - | 2 cores |",
        "| 1 | verifier | 100 and 110 MB | 50 and 51 | - | 12, at most 300 |",
        "* 1, 50 s: verifier-2: no recovery",
    ):
        assert row in shown
    with pytest.raises(ReportError, match="line 1: run 1 has no beginning"):
        add_up([encode(LINES[1])])


@pytest.mark.parametrize(("growth", "is_problem"), [(0.5, False), (5.0, True)])
def test_what_grows_is_a_problem(growth: float, is_problem: bool) -> None:
    watch = NodeWatch(None)
    for at in range(20):
        watch._samples = [Usage(100.0 + growth * at, 50, 9, 9)]
        watch.minute("1", 60.0 * at, "verifier")
    assert bool(list(watch.problems("verifier"))) is is_problem


class Network:
    """A node with a safe head that grows unless `is_stuck`, and a process that comes back after its kill."""

    nodes = ("verifier",)

    def __init__(self, is_stuck: bool) -> None:
        self.is_stuck, self._safe, self.pid = is_stuck, 5, 1

    def safe(self, node: str) -> int:
        self._safe += not self.is_stuck
        return self._safe

    def processes(self, node: str) -> dict[str, Process]:
        return {role: Process(self.pid if role == "rpc" else 0, 1) for role in ROLES}

    def send(self, process: Process, number: signal.Signals) -> None:
        self.pid += number is signal.SIGKILL


@pytest.mark.parametrize("is_stuck", [False, True])
async def test_a_node_whose_safe_head_does_not_grow_has_not_recovered(
    is_stuck: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(lanes, "RECOVERY_SECONDS", 0.01)
    done: list[Done] = []
    network: Any = Network(is_stuck)

    def actions() -> Iterator[Action]:
        yield Action(Kind.KILL, 0.0, "rpc")

    await Lane(network, "verifier", actions(), Disturbed(), done.append, asyncio.Event()).run()
    (killed,) = done
    assert (killed.recovery is None, "the safe head of verifier is 5" in killed.problem) == (is_stuck, is_stuck)
