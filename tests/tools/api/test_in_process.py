"""The stages of one run in one event loop: what ends it, and that nothing is left."""

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.stages.messages.derivation import DropsRequest, DropsResponse
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import Build, run_stages


class Server(Stage):
    """Answers each request."""

    def __init__(self, bus: Bus, meter: Meter) -> None:
        self._server = bus.serve(
            "derivation.drops",
            lambda peer, request: self._server.send(peer, DropsResponse(request.id, 0, (), request.first)),
        )
        self.periodic_tasks = [PeriodicTask("serve", self._step)]
        self.closed = False

    async def _step(self) -> float:
        return 10.0

    async def close(self) -> None:
        self.closed = True


class Client(Stage):
    """Repeats a request until it is answered, and ends as it is told to."""

    def __init__(self, bus: Bus, meter: Meter, end: BaseException) -> None:
        self._client = bus.connect("derivation.drops", self._on_answer)
        self._end, self._answer = end, 0
        self._task = PeriodicTask("ask", self._step)
        self.periodic_tasks = [self._task]

    def _on_answer(self, answer: DropsResponse) -> None:
        self._answer = answer.total
        self._task.wake.set()

    async def _step(self) -> float:
        if self._answer == 7:
            raise self._end
        self._client.send(DropsRequest(1, 7))
        return 0.1


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.parametrize("end", [ExitRequested(0), ExitRequested(3), ZeroDivisionError()], ids=repr)
async def test_an_exit_and_a_bug_end_the_run_and_all_stages_are_closed(end: BaseException) -> None:
    """test_derivation has runs that are cancelled."""
    servers: list[Server] = []

    def server(bus: Bus, meter: Meter) -> Stage:
        servers.append(Server(bus, meter))
        return servers[0]

    builds: dict[str, Build] = {"derivation": server, "rpc": lambda bus, meter: Client(bus, meter, end)}
    if isinstance(end, ExitRequested):
        assert await run_stages(CHANNELS, builds) == end.code
    else:
        with pytest.raises(ZeroDivisionError):
            await run_stages(CHANNELS, builds)
    assert servers[0].closed
