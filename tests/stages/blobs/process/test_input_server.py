"""The blobs process as the reader of a DA server: answers, retries, reading ahead, and its bounds."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs import input_requests
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.blobs.process import da_client
from rollup_node.stages.blobs.process import stage as blobs
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.messages.base import Health
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.endpoints import Endpoints
from rollup_node.stages.protocol.commitments import Commitment, keccak_commitment
from tests.support.chains.plain_rollup import PLAIN_ROLLUP
from tests.support.processes.stage_runner import run_within, running_stage
from tests.support.servers.http_listener import app_for_every_path, listening

DATA = [b"input %d " % index * 20 for index in range(12)]
COMMITMENTS = [keccak_commitment(data) for data in DATA]


class DaServer:
    """A DA server with all of DATA. Requests wait while `is_open` is unset; `failing` gives statuses by commitment."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.data = list(DATA)
        self.failing: dict[Commitment, int] = {}
        self.asked: Counter[Commitment] = Counter()
        self.at_once = self.most_at_once = 0

    async def handler(self, request: web.Request) -> web.Response:
        by_path = {f"/get/0x{each.encode().hex()}": index for index, each in enumerate(COMMITMENTS)}
        index = by_path[request.path]
        self.asked[COMMITMENTS[index]] += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.is_open.wait()
        finally:
            self.at_once -= 1
        status = self.failing.get(COMMITMENTS[index], 200)
        return web.Response(status=status, body=self.data[index] if status == 200 else b"")


class InputsClient:
    """Derivation's end of the channel, and the published health."""

    def __init__(self, buses: dict[str, Bus], server: DaServer) -> None:
        self.server = server
        self.answers: list[InputResponse | InputTooLarge | InputUnavailable] = []
        self.health: tuple[str, ...] = ()
        self._client = buses["derivation"].connect("blobs.contents", self.answers.append)
        buses["rpc"].subscribe("status.blobs", self._on_health)

    def _on_health(self, message: Endpoints | Health) -> None:
        if isinstance(message, Health):
            self.health = tuple(map(str, message.problems))

    def request(self, *indices: int, urgent: bool = True, start: int = 1, number: int = 0) -> None:
        for index in indices:
            self._client.send(InputRequest(COMMITMENTS[index], urgent, start, number))

    def of_request(self, number: int) -> list[InputUnavailable]:
        """The failures of fetches that began after that request; those of earlier ones may still arrive."""
        return [answer for answer in self.answers if isinstance(answer, InputUnavailable) and answer.number == number]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[InputsClient]:
    server = DaServer()
    async with listening(app_for_every_path(server.handler)) as urls:
        config = BlobsConfig(None, PLAIN_ROLLUP, da_server=DaServerConfig(urls[0], **options))
        async with running_stage("blobs", lambda bus, meter: blobs.build(config, bus, meter)) as buses:
            try:
                yield InputsClient(buses, server)
            finally:
                server.is_open.set()


def test_an_input_is_fetched_once_and_then_cached() -> None:
    async def main() -> None:
        async with running() as client:
            client.request(0)
            await client.until(lambda: client.answers)
            client.request(0)
            await client.until(lambda: len(client.answers) == 2)
            assert client.answers == [InputResponse(COMMITMENTS[0], DATA[0])] * 2
            assert client.server.asked == {COMMITMENTS[0]: 1}

    run_within(30, main)


def test_an_input_fetched_ahead_is_there_when_it_is_needed() -> None:
    async def main() -> None:
        async with running() as client:
            client.request(0, 1, urgent=False)
            await client.until(lambda: len(client.server.asked) == 2)
            client.request(2)
            await client.until(lambda: client.answers)
            assert client.answers == [InputResponse(COMMITMENTS[2], DATA[2])], "only what is waited for is sent"
            client.server.is_open.clear()
            client.request(1)
            await client.until(lambda: len(client.answers) == 2)
            assert client.server.asked[COMMITMENTS[1]] == 1

    run_within(30, main)


def test_failures_are_answered_and_retried_until_the_input_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_requests, "FIRST_PAUSE", 0.05)

    async def main() -> None:
        async with running() as client:
            for number, (status, not_found) in enumerate(((404, True), (500, False)), start=1):
                client.server.failing[COMMITMENTS[0]] = status
                client.request(0, number=number)
                await client.until(partial(client.of_request, number))
                answer = client.of_request(number)[0]
                assert (answer.commitment, answer.not_found) == (COMMITMENTS[0], not_found)
                await client.until(lambda: client.health)
                assert client.health[0].startswith("input of a commitment: 127.0.0.1:")
            client.server.failing.clear()
            client.request(0)
            await client.until(lambda: InputResponse(COMMITMENTS[0], DATA[0]) in client.answers)
            await client.until(lambda: not client.health)

    run_within(30, main)


def test_a_wrong_input_that_cannot_be_verified_does_not_survive_a_start() -> None:
    """Whether it was used, fetched ahead of need, or was on its way."""

    async def main() -> None:
        async with running(verify_on_read=False, max_requests=3) as client:
            client.server.data[:3] = [b"wrong"] * 3
            client.request(0)
            client.request(1, urgent=False)
            await client.until(lambda: client.answers == [InputResponse(COMMITMENTS[0], b"wrong")])
            await client.until(lambda: client.server.asked[COMMITMENTS[1]])
            client.request(0)
            await client.until(lambda: len(client.answers) == 2)
            assert client.server.asked[COMMITMENTS[0]] == 1, "within a start it is cached"
            client.server.is_open.clear()
            client.request(2, urgent=False)
            await client.until(lambda: client.server.asked[COMMITMENTS[2]])
            client.server.data[:2] = DATA[:2]
            client.answers.clear()
            client.request(0, 1, 2, start=2)
            await client.until(lambda: client.server.at_once == 3)
            client.server.is_open.set()
            await client.until(lambda: client.server.asked[COMMITMENTS[2]] == 2)
            await client.until(lambda: len(client.answers) == 3)
            assert [answer for answer in client.answers if answer.commitment != COMMITMENTS[2]] == [
                InputResponse(COMMITMENTS[index], DATA[index]) for index in (0, 1)
            ]

    run_within(30, main)


def test_a_failure_names_the_last_request_before_the_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(input_requests, "FIRST_PAUSE", 0.05)

    async def main() -> None:
        async with running(max_requests=2) as client:
            client.server.failing[COMMITMENTS[0]] = 404
            client.server.is_open.clear()
            client.request(0, number=1)
            await client.until(lambda: client.server.asked[COMMITMENTS[0]])
            client.request(0, number=2)
            client.request(1, urgent=False)
            await client.until(lambda: client.server.asked[COMMITMENTS[1]])
            client.server.is_open.set()
            await client.until(lambda: len(client.answers) >= 2)
            first, second = client.answers[:2]
            assert isinstance(first, InputUnavailable) and isinstance(second, InputUnavailable)
            assert (first.number, second.number) == (1, 2)

    run_within(30, main)


@pytest.mark.option("altda.max-concurrent-da-requests")
@pytest.mark.parametrize("most", [1, 3])
def test_requests_at_the_same_time_are_bounded(most: int) -> None:
    async def main() -> None:
        async with running(max_requests=most) as client:
            client.server.is_open.clear()
            client.request(*range(1, 9), urgent=False)
            await client.until(lambda: client.server.at_once == most)
            client.server.is_open.set()
            await client.until(lambda: len(client.server.asked) == 8)
            assert client.server.most_at_once == most

    run_within(30, main)


def test_a_fetch_ahead_that_hangs_gives_way_to_what_is_waited_for() -> None:
    async def main() -> None:
        async with running() as client:
            client.server.is_open.clear()
            client.request(0, urgent=False)
            await client.until(lambda: client.server.asked[COMMITMENTS[0]])
            client.request(1)
            await client.until(lambda: client.server.asked[COMMITMENTS[1]])
            client.server.is_open.set()
            await client.until(lambda: client.answers == [InputResponse(COMMITMENTS[1], DATA[1])])
            await client.until(lambda: client.server.asked[COMMITMENTS[0]] == 2)

    run_within(30, main)


def test_a_large_input_is_read_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(da_client, "AHEAD_BODY", 100)

    async def main() -> None:
        async with running() as client:
            client.request(0, urgent=False)
            await client.until(lambda: client.server.asked[COMMITMENTS[0]])
            client.request(0, urgent=False)
            client.request(0)
            await client.until(lambda: InputResponse(COMMITMENTS[0], DATA[0]) in client.answers)
            assert client.server.asked[COMMITMENTS[0]] <= 3

    run_within(30, main)


def test_without_a_da_server_requests_are_ignored() -> None:
    async def main() -> None:
        config = BlobsConfig(None, PLAIN_ROLLUP)
        async with running_stage("blobs", lambda bus, meter: blobs.build(config, bus, meter)) as buses:
            client = InputsClient(buses, DaServer())
            client.request(0)
            await asyncio.sleep(0.1)
            assert client.answers == []

    run_within(30, main)


@pytest.mark.sign("ALTDA-UNREACHABLE", line=True)
@pytest.mark.parametrize(
    "status, code, words",
    [(404, Code.ALTDA_MISSING, "does not have"), (503, Code.ALTDA_UNREACHABLE, "HTTP status 503")],
)
def test_an_input_that_stays_away_is_one_line_with_the_words_of_the_server(
    status: int, code: Code, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_configuration", log.configuration()._replace(level=log.Level.INFO))

    async def main() -> None:
        async with running() as client:
            client.server.failing = {COMMITMENTS[0]: status, COMMITMENTS[1]: status}
            client.request(1, urgent=False)
            client.request(0)
            await client.until(lambda: client.server.asked[COMMITMENTS[0]] >= 2 and client.server.asked[COMMITMENTS[1]])
            client.server.failing.clear()
            found = InputResponse(COMMITMENTS[0], DATA[0])
            await client.until(lambda: found in client.answers)

    run_within(30, main)
    lines = [line for line in capsys.readouterr().err.splitlines() if "code=" in line]
    assert [line.split()[0] for line in lines] == ["warn", "info"] and all(
        f"code={code.text} " in each for each in lines
    )
    assert words in lines[0] and str(COMMITMENTS[0]) in lines[0] and lines[0].endswith(f"do={code.remedy}")
