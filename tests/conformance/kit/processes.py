"""The l1 and blobs processes over real messages, with endpoints on loopback that fail as the test requires."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import stage as blobs_process
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process import stage as l1_process
from rollup_node.stages.messages.base import Message
from tests.conformance.kit.chain import forks_until, rollup
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.http_listener import Methods, json_rpc_app, listening
from tests.support.timing.conditions import until

ROLLUP = rollup(forks_until("ecotone"))
TIMEOUT = 0.3
REPEAT_SECONDS = 0.2

Answer = TypeVar("Answer", bound=Message)


class Requester:
    """Derivation's end of a channel: sends a request until the answer has come."""

    def __init__(self, bus: Bus, channel: str) -> None:
        self._answers: list[Message] = []
        self._client = bus.connect(channel, self._answers.append)

    async def until(
        self, request: Message, kind: type[Answer], condition: Callable[[Answer], bool] = lambda answer: True
    ) -> Answer:
        """Wait for the first answer of this kind for which the condition holds."""
        while True:
            self._client.send(request)
            with suppress(TimeoutError):
                return await until(lambda: next(self._of_kind(kind, condition), None), REPEAT_SECONDS)

    def _of_kind(self, kind: type[Answer], condition: Callable[[Answer], bool]) -> Iterator[Answer]:
        return (answer for answer in self._answers if isinstance(answer, kind) and condition(answer))


@asynccontextmanager
async def l1_running(methods: Methods) -> AsyncIterator[Requester]:
    """Yield the l1 process with this endpoint."""
    async with listening(json_rpc_app(methods)) as urls:
        config = L1Config(urls, (ROLLUP,), poll_interval=0.05, epoch_poll_interval=0, timeout=2.0)
        async with running_stage("l1", partial(l1_process.build, config)) as buses:
            yield Requester(buses["derivation"], "l1.blocks")


@asynccontextmanager
async def blobs_running(*apps: web.Application) -> AsyncIterator[Requester]:
    """Yield the blobs process with a Beacon API, which must answer within 0.3 s, or with none."""
    async with listening(*apps) as urls:
        config = BlobsConfig(urls[0] if urls else None, timeout=TIMEOUT)
        async with running_stage("blobs", partial(blobs_process.build, config)) as buses:
            yield Requester(buses["derivation"], "blobs.contents")
