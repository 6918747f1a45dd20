"""Which lane a call is made in, and under which name its failures are known."""

from rollup_node.stages.engine.calls.calls import CallPurpose


def test_calls_that_move_heads_share_a_lane_and_tasks_have_the_names_of_the_metrics() -> None:
    tasks = [work.task for work in CallPurpose if work.lane is None]
    first = ["EL sync", "drive", "follow source", "drive", "unsafe blocks", "unsafe gap"]
    assert tasks == [*first, "sequence", "build API", "replacement", "denied block"]
    assert (CallPurpose.START.task, CallPurpose.FINALITY.task) == ("drive", "finalize")
