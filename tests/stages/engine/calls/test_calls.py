"""Which lane a call is made in, and under which name its failures are known."""

from rollup_node.stages.engine.calls.calls import Lane, Work


def test_all_calls_that_move_heads_share_a_lane() -> None:
    moving = [work for work in Work if work.lane is Lane.HEADS]
    first = [Work.EL_SYNC, Work.FORKCHOICE, Work.FOLLOW_HEAD, Work.ATTRIBUTES, Work.UNSAFE_BLOCK, Work.UNSAFE_GAP]
    assert moving == [*first, Work.SEQUENCER, Work.BUILD_API, Work.REPLACEMENT]
    others = [work.lane for work in Work if work not in moving]
    assert len(others) == len(set(others)) == len(Lane) - 1, "each kind of read has a lane of its own"


def test_tasks_have_the_names_of_the_metrics() -> None:
    names = {"EL sync", "drive", "follow source", "unsafe blocks", "unsafe gap", "sequence", "build API", "replacement"}
    assert {work.task for work in Work if work.lane is Lane.HEADS} == names
    assert (Work.START.task, Work.FINALITY.task) == ("drive", "finalize")
