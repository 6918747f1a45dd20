"""Pauses after failures [STA17]."""

from rollup_node.stages.engine.calls.backoff import TaskBackoff


def test_pauses_double_up_to_ten_seconds() -> None:
    backoff, now, pauses = TaskBackoff(), 100.0, []
    for _ in range(6):
        assert not backoff.is_waiting("drive", now)
        pauses.append(backoff.fail("drive", now))
        assert backoff.is_waiting("drive", now) and backoff.next_retry(now) == now + pauses[-1]
        now += pauses[-1]
    assert pauses == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert backoff.recover("drive") == 6
    assert backoff.recover("drive") == 0 and backoff.fail("drive", now) == 1.0


def test_a_reset_pauses_only_from_the_second_failure_on() -> None:
    backoff = TaskBackoff()
    assert [backoff.reset("drive", 100.0) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert backoff.fail("drive", 100.0) == 8.0


def test_tasks_do_not_wait_for_each_other() -> None:
    backoff = TaskBackoff()
    backoff.fail("drive", 100.0)
    backoff.fail("drive", 100.0)
    backoff.fail("finalize", 100.0)
    assert not backoff.is_waiting("unsafe blocks", 100.0)
    assert backoff.next_retry(100.0) == 101.0 and backoff.next_retry(101.0) == 102.0
    assert backoff.next_retry(102.0) is None


def test_jitter_and_first_pause() -> None:
    backoff = TaskBackoff(jitter=lambda: 0.25, first=0.05)
    assert backoff.fail("drive", 0.0) == 0.3 and backoff.fail("drive", 0.0) == 0.35
