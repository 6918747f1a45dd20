"""The l1 and blobs processes over real messages, with endpoints on loopback that fail as the test requires."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.node.runtime.task_runner import Problems, TaskRunner
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.kzg import blob_to_commitment, versioned_hash
from rollup_node.stages.blobs.process import stage as blobs_process
from rollup_node.stages.compute.config import ComputeConfig
from rollup_node.stages.compute.process import stage as compute
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import cancel_all
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process import stage as l1_process
from rollup_node.stages.messages.base import Message
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import BlobRef, Hash
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from rollup_node.tools.batcher.kzg_proofs import compute_proof
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, Method, application
from rollup_node.tools.devnet.l1 import beacon
from rollup_node.tools.devnet.l1.beacon import CONSENSUS_FORKS, BeaconBlock, Blob
from rollup_node.tools.devnet.l1.signed_headers import DEVELOPMENT, beacon_network
from tests.conformance.kit.chain import GENESIS_TIME, L1_BLOCK_TIME, forks_until, rollup

ROLES = {"l1": 1, "blobs": 1, "derivation": 1, "engine": 1, "compute": 1}
ROLLUP = rollup(forks_until("ecotone"))
TIMEOUT = 0.3
REPEAT_SECONDS = 0.2

Answer = TypeVar("Answer", bound=Message)


class Requester:
    """Derivation's end of a channel: sends a request until the answer has come. `ended` is the end of the process."""

    def __init__(self, bus: Bus, channel: str) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers: list[Message] = []
        self._news = asyncio.Event()
        self._client = bus.connect(channel, self._receive)

    def end(self, error: BaseException) -> None:
        """Record that the process has ended with this error."""
        self.ended.set_exception(error)
        self._news.set()

    def _receive(self, answer: Message) -> None:
        self._answers.append(answer)
        self._news.set()

    async def until(
        self, request: Message, kind: type[Answer], condition: Callable[[Answer], bool] = lambda answer: True
    ) -> Answer:
        """Wait for the first answer of this kind for which the condition holds.

        Raises the error of a process that ends before."""
        while True:
            self._news.clear()
            self._client.send(request)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPEAT_SECONDS):
                    await self._news.wait()
            if self.ended.done():
                self.ended.result()
            for answer in self._answers:
                if isinstance(answer, kind) and condition(answer):
                    return answer


@asynccontextmanager
async def l1_running(methods: Mapping[str, Method]) -> AsyncIterator[Requester]:
    """Yield the l1 process with this endpoint."""
    async with AsyncExitStack() as stack:
        url = await _serving(application(JsonRpc(methods)), stack)
        config = L1Config((url,), (ROLLUP,), poll_interval=0.05, epoch_poll_interval=0, timeout=2.0)
        buses, meter = _buses(stack), Meter("l1")
        stage = l1_process.build(config, buses["l1"], meter)
        requester = Requester(buses["derivation"], "l1.blocks")
        async with _running(stage, buses, meter, "l1", requester):
            yield requester


@asynccontextmanager
async def blobs_running(app: web.Application | None) -> AsyncIterator[Requester]:
    """Yield the blobs process with this Beacon API, which must answer within 0.3 s, or with none."""
    async with AsyncExitStack() as stack:
        url = None if app is None else await _serving(app, stack)
        buses, meter = _buses(stack), Meter("blobs")
        stage = blobs_process.build(BlobsConfig(url, timeout=TIMEOUT), buses["blobs"], meter)
        requester = Requester(buses["derivation"], "blobs.contents")
        async with _running(stage, buses, meter, "blobs", requester):
            yield requester


def bounded(use: Callable[[], Awaitable[None]]) -> None:
    """Awaits an awaitable. Raises TimeoutError after 20 seconds."""

    async def run() -> None:
        async with asyncio.timeout(20):
            await use()

    asyncio.run(run())


async def _serving(app: web.Application, stack: AsyncExitStack) -> str:
    listener = Listener(app, 0)
    await listener.start()
    stack.push_async_callback(listener.stop)
    url: str = listener.url
    return url


def _buses(stack: AsyncExitStack) -> dict[str, Bus]:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rn-")))
    buses = in_process_buses(CHANNELS, folder, ROLES)
    compute.build(ComputeConfig(), buses["compute"], Meter("compute"))
    return buses


@asynccontextmanager
async def _running(
    stage: Any, buses: dict[str, Bus], meter: Meter, role: str, requester: Requester
) -> AsyncIterator[None]:
    """Drives a stage as the runtime does; an error of one of its tasks ends `requester`."""
    async with running_buses(buses):
        await stage.start()
        driver = TaskRunner(stage, meter, Problems(stage, meter), role)
        running = [asyncio.create_task(driver.run(task)) for task in driver.periodic_tasks]
        for task in running:
            task.add_done_callback(lambda ended: _forward(ended, requester))
        try:
            yield
        finally:
            driver.stop()
            await asyncio.wait(running, timeout=1.0)
            await cancel_all(running)
            await stage.close()
    if requester.ended.done():
        requester.ended.result()


def _forward(task: asyncio.Task[None], requester: Requester) -> None:
    if not task.cancelled() and not requester.ended.done() and (error := task.exception()) is not None:
        requester.end(error)


class FaultyBeacon:
    """A Beacon API with some blobs in slot 1.

    `delays` are the seconds by which the next answers about blobs are late; without `has_blobs` it has none."""

    def __init__(self, contents: Sequence[bytes]) -> None:
        self.network = beacon_network({}, GENESIS_TIME, L1_BLOCK_TIME, DEVELOPMENT)
        self.has_blobs = True
        self.delays: list[float] = []
        self._blobs = [_sidecar(content) for content in contents]

    @property
    def refs(self) -> tuple[BlobRef, ...]:
        return tuple(BlobRef(index, name) for index, (name, _) in enumerate(self._blobs))

    def blobs_at(self, slot: int) -> Sequence[tuple[Hash, Blob]] | None:
        """Return the `blobs_at` method that the embedded L1's Beacon API calls."""
        return self._blobs if slot == 1 and self.has_blobs else None

    def beacon_block(self, slot: int) -> BeaconBlock | None:
        """Return the `beacon_block` method that the embedded L1's Beacon API calls."""
        listed = [to_hex(blob.commitment) for _, blob in self._blobs]
        body = {"execution_payload": {}, "blob_kzg_commitments": listed}
        result = BeaconBlock(CONSENSUS_FORKS["osaka"], {"message": {"body": body}})
        return result if slot == 1 and self.has_blobs else None

    def app(self) -> web.Application:
        """Return the API with its delays."""

        @web.middleware
        async def late(request: web.Request, handler: Any) -> Any:
            if "/blob" in request.path and self.delays:
                await asyncio.sleep(self.delays.pop(0))
            return await handler(request)

        app = beacon.application(self)
        app.middlewares.append(late)
        return app


@cache
def _sidecar(content: bytes) -> tuple[Hash, Blob]:
    commitment = blob_to_commitment(content)
    return versioned_hash(commitment), Blob(content, commitment, compute_proof(content, commitment))
