"""The estimate of the engine's own sync [ELS13]."""

from rollup_node.stages.engine.machines.sync_progress import MAX_ETA, SAMPLES, STALL_SECONDS, SyncProgress


def test_rate_and_time_left() -> None:
    progress = SyncProgress()
    first = progress.add(100, 1000, 50.0)
    assert (first.to_go, first.rate, first.eta, first.stalled) == (900, 0.0, None, 0.0)
    later = progress.add(200, 1000, 60.0)
    assert (later.to_go, later.rate, later.eta) == (800, 10.0, 80.0)
    assert str(later.problem) == "EL sync: block 200, 800 blocks to go, 10.0 blocks/s, about 1m20s left"


def test_only_the_last_samples_count() -> None:
    progress = SyncProgress()
    for count in range(SAMPLES * 2):
        found = progress.add(count, 10**6, float(count))
    assert found.rate == 1.0
    for count in range(SAMPLES):
        found = progress.add(SAMPLES * 2 + 9 * count, 10**6, float(SAMPLES * 2 + count))
    assert found.rate == 9.0


def test_no_new_block_is_a_hint_at_peers() -> None:
    progress = SyncProgress()
    progress.add(7, 1000, 0.0)
    assert "check that" not in progress.add(7, 1000, STALL_SECONDS - 1).problem.text
    assert (
        "no new block for 5m0s; check that the execution engine has peers"
        in progress.add(7, 9, STALL_SECONDS).problem.text
    )
    assert "check that" not in progress.add(8, 9, STALL_SECONDS + 1).problem.text


def test_an_engine_that_starts_over_has_no_rate_of_before() -> None:
    progress = SyncProgress()
    progress.add(100, 1000, 0.0)
    assert progress.add(10, 1000, 10.0).rate == 0.0


def test_long_times() -> None:
    progress = SyncProgress()
    progress.add(0, 2**64, 0.0)
    assert progress.add(1, 2**64, 1.0).eta == MAX_ETA
    assert "3650d0h" in progress.add(2, 2**64, 2.0).problem.text
    other = SyncProgress()
    other.add(0, 7200, 0.0)
    assert "2h0m" in other.add(1, 7201, 1.0).problem.text
