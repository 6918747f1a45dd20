"""The report of soaks adds up over runs."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.tools.devnet.soak.report import (
    ActionDone,
    Line,
    Minute,
    NodeTrend,
    ReportError,
    RunEnded,
    RunStarted,
    add_up,
    encode,
    table,
)
from rollup_node.tools.devnet.soak.schedule import Kind

TREND = NodeTrend((300.0, 310.4), (200, 200), (8, 8), 20.0, 120)
ACTIONS = st.builds(
    ActionDone,
    run=st.just("1"),
    at=st.floats(0, 3600),
    node=st.sampled_from(["sequencer", "verifier"]),
    kind=st.sampled_from(Kind),
    target=st.sampled_from(["l1", "rpc"]),
    seconds=st.just(0.0),
    amount=st.just(0),
    recovery=st.none() | st.floats(0, 400),
)


def begin(run: str, commit: str = "0123456789") -> RunStarted:
    return RunStarted(run, 1.8e9, 7, 4, commit, "2 cores, 24 GB", 9.0)


def end(run: str, seconds: float, *problems: str, equal: bool = True) -> RunEnded:
    return RunEnded(run, seconds, 100, equal, 2.5, {"verifier": TREND}, problems)


def kill(run: str, role: str, recovery: float | None = 1.0) -> ActionDone:
    return ActionDone(run, 10.0, "verifier", Kind.KILL, role, 0.0, 0, recovery)


def lines(*found: Line) -> list[bytes]:
    return [encode(line) for line in found]


@given(st.lists(ACTIONS, max_size=60), st.lists(ACTIONS, max_size=60))
def test_two_runs_add_up(first: list[ActionDone], second: list[ActionDone]) -> None:
    parts = [lines(begin("1"), *each, end("1", 1800.0)) for each in (first, second)]
    one, other = map(add_up, parts)
    renamed = [line.replace(b'"run":"1"', b'"run":"2"') for line in parts[1]]
    both = add_up([*parts[0], *renamed])
    assert both.kills == one.kills + other.kills
    assert both.kinds == one.kinds + other.kinds
    assert both.recoveries.tenths == one.recoveries.tenths + other.recoveries.tenths
    assert both.recoveries.longest == max(one.recoveries.longest, other.recoveries.longest)
    assert sum((each.tenths for each in both.by_action.values()), Counter()) == both.recoveries.tenths
    assert both.hours == pytest.approx(1.0) and len(both.runs) == 2
    assert both.kills.total() + both.kinds.total() == len(first) + len(second)


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=200))
def test_the_parts_of_the_recovery_times(tenths: list[int]) -> None:
    found = add_up(lines(begin("1"), *(kill("1", "l1", tenth / 10) for tenth in tenths)))
    ordered = sorted(tenths)
    assert found.recoveries.within(1.0) == ordered[-1] / 10 == found.recoveries.longest
    half = found.recoveries.within(0.5)
    assert half is not None and half == ordered[(len(ordered) + 1) // 2 - 1] / 10


def test_a_run_that_was_killed_counts_as_far_as_it_is_written() -> None:
    written = lines(begin("1"), kill("1", "l1"), Minute("1", 60.0, "verifier", 300.0, 100, 8, 9, 12))
    found = add_up([*written, encode(kill("1", "rpc"))[:30]])
    assert found.kills == Counter(l1=1) and found.runs["1"].seconds == 60.0
    assert not found.runs["1"].passed
    assert any("did not end" in line for line in table(found))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ([b"nonsense\n"], "line 1: "),
        (lines(kill("1", "l1")), "line 1: run 1 has no beginning"),
        ([*lines(begin("1")), b'{"type":"other"}\n'], "line 2: "),
    ],
)
def test_no_report(text: list[bytes], error: str) -> None:
    with pytest.raises(ReportError, match=error):
        add_up(text)


def test_the_table() -> None:
    found = add_up(
        lines(
            begin("1"),
            kill("1", "l1"),
            kill("1", "rpc", None),
            ActionDone("1", 20.0, "l1", Kind.REORG, "", 0.0, 3, 7.26),
            end("1", 3600.0),
            begin("2", "abcdef+"),
            end("2", 1800.0, "something", equal=False),
        )
    )
    text = "\n".join(table(found))
    assert "| Time | 1.50 hours in 2 runs |" in text
    assert "| Kills | 2 |\n| Other actions | 1 |\n| Without recovery | 1 |" in text
    assert "| kill l1 | 1 | 1.0 | 1.0 | 1.0 |\n| kill rpc | 1 | - | - | - |\n| reorg | 1 | 7.3 | 7.3 | 7.3 |" in text
    assert "| all | 3 | 1.0 | 7.3 | 7.3 |" in text
    assert "| 1 | 0123456789 | 7 | 4 | 60 | 2 | 3 | 100 | equal roots | 2.5 | 2 cores, 24 GB |" in text
    assert "output roots differ" in text and "* something" in text
    assert "| 1 | verifier | 300 and 310 MB | 200 and 200 | 8 and 8 | 20, at most 120 |" in text
    assert found.runs["1"].passed and not found.runs["2"].passed
