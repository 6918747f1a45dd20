"""The schedule of a soak is a function of its seed, and stays below the crash-loop rule."""

from itertools import islice

from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.tools.devnet.soak.schedule import (
    LEAST_PAUSE,
    MAX_DEPTH,
    MAX_LOST_BLOCKS,
    ROLES,
    SUPERVISOR,
    SWEEPER,
    Kind,
    l1_actions,
    node_actions,
)

SEEDS = st.integers(0, 1 << 64)
PAUSES = st.floats(LEAST_PAUSE, 60.0)
FAULTS = ["l1-html", "engine-hangs"]
DEADLY = (Kind.KILL, Kind.HANG)


@given(SEEDS, PAUSES, st.booleans())
@settings(max_examples=30)
def test_the_schedule_follows_from_the_seed(seed: int, pause: float, joins: bool) -> None:
    def first(seed: int, node: str) -> list[object]:
        return list(islice(node_actions(seed, node, FAULTS, pause, joins=joins), 50))

    assert first(seed, "verifier") == first(seed, "verifier")
    assert first(seed, "verifier") != first(seed + 1, "verifier")
    assert first(seed, "verifier") != first(seed, "verifier-2")
    reorgs = list(islice(l1_actions(seed, pause), 20))
    assert reorgs == list(islice(l1_actions(seed, pause), 20)) != list(islice(l1_actions(seed + 1, pause), 20))
    assert all(each.kind is Kind.REORG and 1 <= each.amount <= MAX_DEPTH for each in reorgs)


@given(SEEDS, PAUSES)
@settings(max_examples=40)
def test_no_process_dies_as_often_as_ends_its_node(seed: int, pause: float) -> None:
    """Even if each recovery took no time."""
    policy, now = RestartPolicy(), 0.0
    deaths: dict[str, list[float]] = {role: [] for role in ROLES}
    for action in islice(node_actions(seed, "verifier", FAULTS, pause, joins=True), 300):
        assert action.pause >= LEAST_PAUSE
        now += action.pause
        if action.kind in DEADLY:
            deaths[action.target].append(now)
    for times in deaths.values():
        assert all(sum(at <= each < at + policy.window for each in times) < policy.deaths for at in times)


@given(SEEDS)
@settings(max_examples=20)
def test_every_kind_and_every_process_comes(seed: int) -> None:
    actions = list(islice(node_actions(seed, "verifier", FAULTS, 9.0, joins=True), 2000))
    assert {each.kind for each in actions} == set(Kind) - {Kind.REORG}
    assert {each.target for each in actions if each.kind is Kind.KILL} == set(ROLES)
    assert {each.target for each in actions if each.kind is Kind.FAULT} == set(FAULTS)
    hung = {each.target for each in actions if each.kind is Kind.HANG}
    assert hung and not hung & {SUPERVISOR, SWEEPER}
    # A stopped process is not taken for a hanging one.
    stopped = [each.seconds for each in actions if each.kind is Kind.STOP]
    assert max(stopped) < RestartPolicy().stopped
    assert {each.amount for each in actions if each.kind is Kind.RESTART} == set(range(MAX_LOST_BLOCKS + 1))
    kills = sum(each.kind is Kind.KILL for each in actions)
    assert kills > 0.55 * len(actions)


def test_what_a_node_cannot_have_is_left_out() -> None:
    actions = list(islice(node_actions(3, "sequencer", [], 9.0, joins=False), 500))
    assert not {Kind.FAULT, Kind.JOIN} & {each.kind for each in actions}


def test_an_action_in_words() -> None:
    texts = {each.text for each in islice(node_actions(1, "verifier", FAULTS, 9.0, joins=True), 200)}
    assert "kill p2p" in texts
    assert any(text.startswith("stop ") and text.endswith(" s") for text in texts)
    assert next(l1_actions(1, 9.0)).text.startswith("reorg of ")
