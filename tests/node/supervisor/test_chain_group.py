"""Chains that are set aside: no process of another chain ends for what happens to one [LIF34]."""

import json
import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from rollup_node.node.supervisor.chain_group import FIRST_PAUSE, LONGEST_PAUSE, ChainGroup
from rollup_node.node.supervisor.supervised_process import SupervisedProcess
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.stages.messages.codes import Code
from tests.support.processes.toy_harness import Line, StartNode, ToyNode

CHAINS = ("10", "130")
OTHERS = ("left", "right.130", "copy.130")
PAUSES = {"MAX_RESTART_PAUSE": 0.05, "FIRST_PAUSE": 0.5, "LONGEST_PAUSE": 1.5}
SHARED = {"chains": CHAINS, "pauses": PAUSES, "restart_policy": {"deaths": 1000}}


@pytest.fixture
def group() -> ChainGroup:
    process = SupervisedProcess(ProcessSpec("engine", "m:f", None, group="10"), 0, 0, RestartPolicy())
    return ChainGroup("10", [process])


def test_pauses_grow_until_the_chain_has_run_for_long(group: ChainGroup) -> None:
    now, pauses = 1000.0, []
    for _ in range(8):
        pauses.append(group.set_aside(Code.CRASH_LOOP, "it died", now))
        assert not group.is_due(now + pauses[-1] - 0.1)
        now += pauses[-1]
        assert group.is_due(now)
    assert pauses == [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    assert group.set_aside(Code.CRITICAL, "it failed", now + LONGEST_PAUSE + 1) == FIRST_PAUSE


def test_a_chain_that_is_set_aside_while_it_is_renewed_has_its_pause(group: ChainGroup) -> None:
    """[LIF34] Processes that run its tasks die while its own ones stop."""
    group.is_renewed = True
    assert group.is_due(1000.0)
    pause = group.set_aside(Code.CRASH_LOOP, "6 processes died of its tasks", 1000.0)
    assert not group.is_due(1000.0 + pause - 0.1) and group.is_due(1000.0 + pause)


def test_an_end_that_will_repeat_has_the_longest_pause_at_once(group: ChainGroup) -> None:
    for code in (Code.PROTOCOL_VERSION, Code.FORK_MISMATCH, Code.NETWORK_LEFT):
        assert group.set_aside(code, "it halted", 1000.0) == LONGEST_PAUSE
    assert group.aside is not None and group.aside.until - group.aside.since == LONGEST_PAUSE


def test_what_a_process_did_before_is_forgotten(group: ChainGroup) -> None:
    (process,) = group.processes
    process.restart_at, process.fork_failures = 1001.0, [1000.0]
    for now in range(5):
        process.deaths.append(1000.0 + now)
    group.set_aside(Code.CRASH_LOOP, "it died", 1005.0)
    assert process.restart_at is None and not process.deaths and not process.fork_failures


def supernode(start: StartNode, **settings: object) -> ToyNode:
    """Start a node of two chains."""
    return start({"chains": CHAINS, "pauses": PAUSES, **settings}).wait_until_ready()


@pytest.fixture
def chains(running: ToyNode) -> Iterator[ToyNode]:
    """Yield a node of two chains; nothing that happens to chain 10 ends another process, and it comes back."""
    before = pids(running)
    yield running
    running.wait(lambda: not aside(running), "no chain is aside")
    for chain in CHAINS:
        running.wait_for_exchange(chain=chain)
    assert pids(running) == before


def aside(node: ToyNode) -> list[Line]:
    path = node.directory / "aside.json"
    return json.loads(path.read_text()) if path.exists() else []


def pids(node: ToyNode) -> dict[str, int]:
    """Return the processes that a fault of chain 10 must not end."""
    return {name: entry["pid"] for name, entry in node.processes().items() if name in OTHERS}


def lives(node: ToyNode) -> dict[str, int]:
    """Return the incarnations of the processes of chain 10."""
    return {name: node.processes()[name]["incarnation"] for name in ("right.10", "copy.10")}


def wait_for_next(node: ToyNode, before: dict[str, int]) -> None:
    """Wait until both processes of chain 10 have been started again."""
    for name, incarnation in before.items():
        node.wait_for_entry(name, incarnation + 1)


def kill(node: ToyNode, name: str, incarnation: int) -> None:
    os.kill(node.wait_for_entry(name, incarnation)["pid"], signal.SIGKILL)


def test_logs_metrics_and_titles_name_the_chain(chains: ToyNode) -> None:
    """[LIF33]"""
    entries = chains.processes()
    assert entries["right.10"]["role"] == "right" and entries["right.10"]["chain"] == "10"
    assert "chain" not in entries["left"]
    for name in ("right.10", "left"):
        chains.order(name, "debug")
        assert chains.wait_for_line("toy acts", name).get("chain") == ("10" if name == "right.10" else None)
    path = chains.directory / "metrics" / "right.10.prom"
    chains.wait(path.exists, "its metrics")
    samples = [text for text in path.read_text().splitlines() if text and not text.startswith("#")]
    assert samples and all('chain="10"' in text for text in samples)
    assert "chain=" not in (chains.directory / "metrics" / "left.prom").read_text()


def test_a_chain_that_asks_for_it_alone_starts_again_with_its_files_read_anew(chains: ToyNode) -> None:
    """[UPG26, LIF34] With wrong ones it is set aside."""
    before, file = lives(chains), chains.folder / "renewed"
    file.write_text("5")
    chains.order("copy.10", "restart")
    wait_for_next(chains, before)
    for name in before:
        chains.wait_for_line("toy started", name, code=5)
    assert not aside(chains) and not chains.logged("chain is set aside")
    chains.order("right.10", "critical")
    assert chains.wait_for_line("chain is set aside", chain="10", again_in_s=0.5), "the first failure"
    wait_for_next(chains, {name: incarnation + 1 for name, incarnation in before.items()})
    file.unlink()
    chains.order("copy.10", "restart")
    line = chains.wait_for_line("chain is set aside", chain="10", again_in_s=1.5)
    assert line["reason"] == "chain 10 has no file"
    wait_for_next(chains, {name: incarnation + 2 for name, incarnation in before.items()})


@pytest.mark.parametrize(
    ("action", "code", "text"),
    [
        ("halt", "PROTOCOL-VERSION", "halted the node: the toys are outdated"),
        ("forks", "FORK-MISMATCH", "the toys have other forks: set --override.jovian"),
        ("critical", "CRITICAL", "failed with a critical error: a toy contradicts itself"),
    ],
)
def test_an_end_that_would_end_a_node_of_one_chain_sets_the_chain_aside(
    chains: ToyNode, action: str, code: str, text: str
) -> None:
    before = lives(chains)
    chains.order("copy.10", action)
    line = chains.wait_for_line("chain is set aside", "supervisor", chain="10")
    assert line["reason"].startswith("process copy.10 ") and line["reason"].endswith(text)
    assert [(entry["chain"], entry["code"]) for entry in aside(chains)] == [("10", code)]
    assert not chains.logged("process ends the node")
    wait_for_next(chains, before)


def test_a_process_killed_many_times_ends_no_other(chains: ToyNode) -> None:
    first = lives(chains)
    for incarnation in range(first["right.10"], first["right.10"] + 20):
        kill(chains, "right.10", incarnation)
    chains.wait_for_entry("right.10", first["right.10"] + 20)
    assert lives(chains)["copy.10"] == first["copy.10"] and not chains.logged("chain is set aside")


def test_a_chain_whose_process_keeps_dying_is_set_aside_and_comes_back(start: StartNode) -> None:
    node = supernode(start, restart_policy={"deaths": 2})
    before, started = pids(node), 1
    for pause in (0.5, 1.0):
        for incarnation in range(started, started + 3):
            kill(node, "right.10", incarnation)
        line = node.wait_for_line("chain is set aside", "supervisor", chain="10", again_in_s=pause)
        assert line["code"] == "CHAIN-ASIDE" and "process right.10 died 3 times" in line["reason"]
        (entry,) = aside(node)
        assert (entry["chain"], entry["code"], entry["reason"]) == ("10", "CRASH-LOOP", line["reason"])
        node.wait(
            lambda: {"right.10", "copy.10"}.isdisjoint(node.processes()), "the processes of the chain are stopped"
        )
        started += 3
        again = node.wait_for_entry("right.10", started)
        assert again["started"] >= entry["until"] - 0.01
        node.wait(partial(lambda: not aside(node)), "the list is empty again")
    assert node.logged("process ended", "supervisor", name="copy.10"), "it was asked to stop"
    node.wait_for_exchange(chain="10")
    node.wait_for_exchange(chain="130")
    assert pids(node) == before
    node.stop()


def test_a_shared_process_that_fails_ends_the_node(start: StartNode) -> None:
    node = supernode(start)
    node.order("left", "critical")
    code, text = node.wait_for_exit()
    assert code == 70 and "process left failed with a critical error: a toy contradicts itself" in text


def test_a_chain_that_fails_in_the_start_holds_up_neither_it_nor_the_stop(start: StartNode) -> None:
    node = start({"chains": CHAINS, "pauses": {"FIRST_PAUSE": 600.0}})
    node.order("copy.10", "critical")
    node.wait_until_ready()
    node.wait_for_line("chain is set aside", chain="10")
    node.wait_for_exchange(chain="130")
    node.stop()
    assert {"left", "right.130", "copy.130", "right.10"} == set(node.stop_order())


def test_processes_that_die_of_the_tasks_of_a_chain_set_it_aside(start: StartNode) -> None:
    """[LIF34] The shared process that died comes back, and the other chain goes on with it."""
    node = supernode(start, restart_policy={"deaths": 2}, pauses=PAUSES | {"FIRST_PAUSE": 600.0})
    others = {name: pid for name, pid in pids(node).items() if name != "left"}
    node.order("right.10", "poison")
    line = node.wait_for_line("chain is set aside", chain="10")
    assert line["reason"].startswith("3 processes died of its tasks within 60 s, last left by signal SIGKILL")
    node.wait_for_entry("left", 4)
    node.wait_for_exchange(chain="130")
    assert {name: pid for name, pid in pids(node).items() if name != "left"} == others
    node.stop()
