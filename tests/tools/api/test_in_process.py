"""The stages of one run in one event loop: what ends it, and that nothing is left."""

import asyncio

import pytest

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import ExitRequested, PeriodicTask, Stage
from rollup_node.stages.messages.derivation import DropsRequest, DropsResponse
from rollup_node.stages.protocol.errors import TemporaryError
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
        self._end, self._answer, self._failures = end, 0, 2
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


def _builds(servers: list[Server], end: BaseException) -> dict[str, Build]:
    def server(bus: Bus, meter: Meter) -> Stage:
        servers.append(Server(bus, meter))
        return servers[0]

    return {"derivation": server, "rpc": lambda bus, meter: Client(bus, meter, end)}


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.mark.parametrize("code", [0, 3])
async def test_an_exit_ends_the_run_and_all_stages_are_closed(code: int) -> None:
    servers: list[Server] = []
    assert await run_stages(CHANNELS, _builds(servers, ExitRequested(code))) == code
    assert servers[0].closed


async def test_a_bug_ends_the_run() -> None:
    servers: list[Server] = []
    with pytest.raises(ZeroDivisionError):
        await run_stages(CHANNELS, _builds(servers, ZeroDivisionError()))
    assert servers[0].closed


async def test_a_cancelled_run_leaves_nothing() -> None:
    servers: list[Server] = []
    run = asyncio.create_task(run_stages(CHANNELS, _builds(servers, TemporaryError("later"))))
    while not servers:
        await asyncio.sleep(0.01)
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled() and servers[0].closed
