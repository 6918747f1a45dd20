"""The stages of one run in one event loop, one of which has a bug. test_derivation has all other ends of runs."""

import pytest

from rollup_node.stages.io.task import PeriodicTask, Stage
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import run_stages


class Failing(Stage):
    """Has a bug."""

    def __init__(self) -> None:
        self.periodic_tasks = [PeriodicTask("fail", self._step)]
        self.closed = False

    async def _step(self) -> float:
        raise ZeroDivisionError

    async def close(self) -> None:
        self.closed = True


@pytest.mark.usefixtures("nothing_is_left")
async def test_a_bug_ends_the_run_and_all_stages_are_closed() -> None:
    stage = Failing()
    with pytest.raises(ZeroDivisionError):
        await run_stages(CHANNELS, {"rpc": lambda bus, meter: stage})
    assert stage.closed
