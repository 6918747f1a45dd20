"""The lanes of a soak in virtual time, on a network of numbers."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from rollup_node.tools.devnet.soak.lanes import L1, RECOVERY_SECONDS, Disturbed, Done, Lane
from rollup_node.tools.devnet.soak.schedule import ROLES, Action, Kind
from tests.support.processes.soak_network import RESTART_SECONDS, WATCHDOG_SECONDS, SoakNetwork
from tests.support.timing import virtual_time

NODES = ("sequencer", "verifier")
PAUSE = 5.0


def results(
    network: SoakNetwork, node: str, *actions: Action, events: Sequence[tuple[float, str]] = (), begin: float = 0.0
) -> list[Done]:
    """What a lane says of its actions; `events` are processes of the verifier that end by themselves at a time."""

    async def scenario() -> list[Done]:
        found: list[Done] = []
        await asyncio.sleep(begin)
        for at, role in events:
            asyncio.get_running_loop().call_later(at, network.replace, "verifier", role)
        await Lane(network, node, iter(actions), Disturbed(), found.append, asyncio.Event()).run()
        return found

    return virtual_time.run(scenario())


@pytest.mark.parametrize(
    ("node", "action", "calls"),
    [
        ("verifier", Action(Kind.KILL, PAUSE, "rpc"), ["SIGKILL verifier rpc"]),
        ("verifier", Action(Kind.STOP, PAUSE, "rpc", 2.0), ["SIGSTOP verifier rpc", "SIGCONT verifier rpc"]),
        ("verifier", Action(Kind.HANG, PAUSE, "l1"), ["SIGSTOP verifier l1", "SIGCONT"]),
        ("verifier", Action(Kind.KILL, PAUSE, "supervisor", 1.0), ["end verifier SIGKILL", "start verifier"]),
        ("verifier", Action(Kind.LEAVE, PAUSE, "", 1.0), ["end verifier SIGTERM", "start verifier"]),
        (
            "verifier",
            Action(Kind.JOIN, PAUSE, "", 1.0),
            ["end verifier SIGTERM", "erase verifier", "engine verifier 0 None", "start verifier"],
        ),
        ("sequencer", Action(Kind.RESTART, PAUSE, "", 2.0, 3), ["engine sequencer 2 3"]),
        ("verifier", Action(Kind.FAULT, PAUSE, "l1-html", 2.0), ["fault verifier l1-html", "fault verifier"]),
        (L1, Action(Kind.REORG, PAUSE, amount=4), ["reorg 4"]),
    ],
)
def test_each_action_and_the_recovery(node: str, action: Action, calls: list[str]) -> None:
    network = SoakNetwork(*NODES)
    (found,) = results(network, node, action)
    assert network.calls == calls
    assert found.problem == "" and found.began == PAUSE
    assert found.recovery is not None and 0 < found.recovery <= 1.5 + RESTART_SECONDS


def test_a_hang_lasts_until_the_process_is_replaced() -> None:
    network = SoakNetwork(*NODES)
    before = network.processes("verifier")["l1"]
    found = results(network, "verifier", Action(Kind.HANG, 4.0, "l1"), Action(Kind.KILL, 4.0, "l1"))
    assert network.processes("verifier")["l1"] != before
    assert found[1].began >= 4.0 + WATCHDOG_SECONDS + 4.0


def test_a_node_that_does_not_recover() -> None:
    network = SoakNetwork(*NODES)
    network.stuck.add("verifier")
    (found,) = results(network, "verifier", Action(Kind.KILL, PAUSE, "l1"))
    assert found.recovery is None
    assert found.problem == "no recovery within 60 s: the safe head of verifier is 5, wanted is more than 5"
    (found,) = results(network, L1, Action(Kind.REORG, PAUSE, amount=1))
    assert found.recovery is None and "no recovery within 60 s" in found.problem


def test_who_joins_is_waited_for_by_its_own_lane_alone() -> None:
    async def scenario() -> list[Done]:
        network, disturbed, found = SoakNetwork(*NODES), Disturbed(), list[Done]()
        network.stuck.add("verifier")
        actions = {"verifier": Action(Kind.JOIN, 4.0), L1: Action(Kind.REORG, PAUSE, amount=1)}
        lanes = (
            Lane(network, node, iter([action]), disturbed, found.append, asyncio.Event())
            for node, action in actions.items()
        )
        await asyncio.gather(*(lane.run() for lane in lanes))
        assert disturbed.joining == set()
        return found

    reorg, join = virtual_time.run(scenario())
    assert reorg.problem == "" and join.problem.startswith("no recovery within ")


def test_a_process_that_is_not_replaced() -> None:
    network = SoakNetwork(*NODES)
    network.broken.add("verifier")
    killed, hung = results(network, "verifier", Action(Kind.KILL, PAUSE, "l1"), Action(Kind.HANG, PAUSE, "rpc"))
    assert killed.problem == "no recovery within 60 s: process l1 is the one from before"
    assert hung.problem.startswith("the hanging process rpc was not replaced within 60 s; no recovery")


@pytest.mark.parametrize("at", [PAUSE + 0.2, PAUSE + 4.0])
def test_a_process_that_ends_by_itself_is_noticed(at: float) -> None:
    """During an action and its recovery, and in the pause before the next."""
    actions = [Action(Kind.STOP, PAUSE, "rpc", 1.0), Action(Kind.KILL, PAUSE, "p2p")]
    found = results(SoakNetwork(*NODES), "verifier", *actions, events=[(at, "engine")])
    assert [each.problem for each in found if each.problem] == ["processes ended by themselves: engine"]


def test_the_end_of_a_node_that_goes_wrong() -> None:
    network = SoakNetwork(*NODES)
    network.end_problem = "the node ended with exit code 1"
    (found,) = results(network, "verifier", Action(Kind.LEAVE, PAUSE, "", 1.0))
    assert found.problem == "the node ended with exit code 1" and found.recovery is not None


def test_the_time_in_which_the_sequencer_is_disturbed_does_not_count() -> None:
    async def scenario(busy: float) -> Done:
        network, disturbed, found = SoakNetwork(*NODES), Disturbed(), list[Done]()
        network.stuck.add("verifier")
        loop = asyncio.get_running_loop()
        disturbed.lanes.add("sequencer")
        loop.call_later(PAUSE + busy, disturbed.lanes.discard, "sequencer")
        loop.call_later(PAUSE + busy + 0.9 * RECOVERY_SECONDS, network.stuck.discard, "verifier")
        action = Action(Kind.KILL, PAUSE, "l1")
        await Lane(network, "verifier", iter([action]), disturbed, found.append, asyncio.Event()).run()
        return found[0]

    found = virtual_time.run(scenario(100.0))
    assert found.problem == "" and found.recovery is not None and found.recovery > 150
    assert virtual_time.run(scenario(0.0)).recovery is not None


def test_a_lane_ends_within_its_pause_and_after_its_action() -> None:
    def actions() -> Iterator[Action]:
        while True:
            yield Action(Kind.STOP, PAUSE, "rpc", 3.0)

    async def scenario(at: float) -> tuple[float, int]:
        stop, found = asyncio.Event(), list[Done]()
        loop = asyncio.get_running_loop()
        loop.call_later(at, stop.set)
        await Lane(SoakNetwork(*NODES), "verifier", actions(), Disturbed(), found.append, stop).run()
        return loop.time(), len(found)

    assert virtual_time.run(scenario(3.0)) == (3.0, 0)
    ended, count = virtual_time.run(scenario(6.0))
    assert count == 1 and 8.0 <= ended <= 10.0


def test_every_role_has_a_process_in_the_fake() -> None:
    assert set(SoakNetwork("verifier").processes("verifier")) == set(ROLES)
