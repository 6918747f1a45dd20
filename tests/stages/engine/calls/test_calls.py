"""Which lane a call is made in, and under which name its failures are known."""

from rollup_node.stages.engine.calls.calls import CallPurpose


def test_all_calls_that_move_heads_share_a_lane() -> None:
    moving = [work for work in CallPurpose if work.lane is None]
    first = [
        CallPurpose.EL_SYNC,
        CallPurpose.FORKCHOICE,
        CallPurpose.FOLLOW_HEAD,
        CallPurpose.ATTRIBUTES,
        CallPurpose.UNSAFE_BLOCK,
        CallPurpose.UNSAFE_GAP,
    ]
    last = [CallPurpose.SEQUENCER, CallPurpose.BUILD_API, CallPurpose.REPLACEMENT, CallPurpose.DENIED_BLOCK]
    assert moving == first + last


def test_tasks_have_the_names_of_the_metrics() -> None:
    unsafe = {"unsafe blocks", "unsafe gap", "denied block"}
    names = unsafe | {"EL sync", "drive", "follow source", "sequence", "build API", "replacement"}
    assert {work.task for work in CallPurpose if work.lane is None} == names
    assert (CallPurpose.START.task, CallPurpose.FINALITY.task) == ("drive", "finalize")
