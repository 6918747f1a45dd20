"""Reading inputs from DA servers, also from ones that misbehave [ADA1 to ADA3]."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from rollup_node.ipc.bus.bus import Bus
from rollup_node.stages.blobs import pending_requests
from rollup_node.stages.blobs.config import BlobsConfig, DaServerConfig
from rollup_node.stages.blobs.process import da_client
from rollup_node.stages.blobs.process import stage as blobs
from rollup_node.stages.blobs.process.da_client import DaClient, InputNotFoundError, TooLargeAheadError
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.base import Endpoints, Health
from rollup_node.stages.messages.blobs import InputRequest, InputResponse, InputTooLarge, InputUnavailable
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.commitments import GENERIC, MAX_KECCAK_INPUT, Commitment, keccak_commitment
from tests.support.processes.stage_runner import running_stage
from tests.support.servers.hostile_bodies import endless
from tests.support.servers.http_listener import Handler, app_for_every_path, listening
from tests.support.timing.conditions import until

DATA = b"frames" * 100
KECCAK_OF_DATA, OPAQUE = keccak_commitment(DATA), Commitment(GENERIC, b"\x0c" + bytes(40))


@asynccontextmanager
async def da_client_of(handler: Handler, path: str = "", **options: Any) -> AsyncIterator[DaClient]:
    """Yield the client of a server that answers by this handler; `options` of DaServerConfig."""
    async with listening(app_for_every_path(handler)) as urls:
        client = DaClient(DaServerConfig(urls[0] + path, **options), Meter("blobs"))
        try:
            yield client
        finally:
            await client.close()


def answering(body: bytes, **options: Any) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=body, **options)

    return handler


async def get(
    handler: Handler, commitment: Commitment = KECCAK_OF_DATA, **options: Any
) -> InputResponse | InputTooLarge:
    async with da_client_of(handler, **options) as client:
        return await client.get(commitment)


async def error_of(handler: Handler, commitment: Commitment = KECCAK_OF_DATA, **options: Any) -> EndpointError:
    with pytest.raises(EndpointError) as caught:
        await get(handler, commitment, **options)
    return caught.value


async def test_the_path_has_the_type_byte_and_the_url_keeps_its_own() -> None:
    seen: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append(request.path_qs)
        return web.Response(body=DATA)

    async with da_client_of(handler, path="/da/?key=abc") as client:
        assert await client.get(KECCAK_OF_DATA) == InputResponse(KECCAK_OF_DATA, DATA)
        assert await client.get(OPAQUE) == InputResponse(OPAQUE, DATA)
    assert seen == [f"/da/get/0x00{KECCAK_OF_DATA.content.hex()}?key=abc", f"/da/get/0x010c{'00' * 40}?key=abc"]


@pytest.mark.option("altda.verify-on-read")
async def test_what_does_not_match_is_refused_unless_that_is_not_checked() -> None:
    error = await error_of(answering(b"other"))
    assert f"sends 5 bytes that do not match commitment {KECCAK_OF_DATA}" in str(error)
    assert not isinstance(error, InputNotFoundError)
    assert await get(answering(b"other"), verify_on_read=False) == InputResponse(KECCAK_OF_DATA, b"other")
    assert await get(answering(b"other"), OPAQUE) == InputResponse(OPAQUE, b"other")
    assert "sends 0 bytes" in str(await error_of(answering(b"")))


async def test_only_404_is_not_found() -> None:
    assert isinstance(await error_of(answering(b"", status=404)), InputNotFoundError)
    for status in (204, 301, 400, 418, 429, 500, 503):
        error = await error_of(answering(b"", status=status))
        assert not isinstance(error, InputNotFoundError)
        assert (error.status, str(error).partition(": ")[2]) == (status, f"HTTP status {status}")


async def test_requests_are_recorded() -> None:
    """[RPC94] An input that the server does not have is an answer."""
    statuses = [200, 404, 429]

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=DATA, status=statuses.pop(0))

    async with da_client_of(handler) as client:
        await client.get(KECCAK_OF_DATA)
        for _ in range(2):
            with pytest.raises(EndpointError):
                await client.get(KECCAK_OF_DATA)
        result = client.record.counts(True)
        assert (result.kind, result.requests, result.errors, result.throttled) == ("da-server", 3, 1, 1)
        assert result.failing and result.error == "HTTP status 429"


async def test_the_largest_keccak_input_and_a_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batcher can commit to more than is kept of a generic input; derivation must not wait for it for ever [AD7]."""
    monkeypatch.setattr(da_client, "MAX_BODY", MAX_KECCAK_INPUT + 1)
    largest = bytes(MAX_KECCAK_INPUT)
    assert await get(answering(largest), keccak_commitment(largest)) == InputResponse(
        keccak_commitment(largest), largest
    )
    larger = largest + b"\1\1"
    assert await get(answering(larger), keccak_commitment(larger)) == InputTooLarge(
        keccak_commitment(larger), len(larger)
    )
    assert "that do not match" in str(await error_of(answering(larger)))
    result = await get(answering(larger), verify_on_read=False)
    assert isinstance(result, InputTooLarge)


async def test_less_is_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(da_client, "AHEAD_BODY", 2000)
    large = bytes(2001)
    async with da_client_of(answering(large)) as client:
        for commitment in (OPAQUE, keccak_commitment(large)):
            with pytest.raises(TooLargeAheadError, match="longer than 2000 bytes"):
                await client.get(commitment, ahead=True)
            assert await client.get(commitment) == InputResponse(commitment, large)


@pytest.mark.option("altda.get-timeout")
async def test_slow_servers_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also without a timeout of their own."""
    monkeypatch.setattr(da_client, "UNLIMITED_SECONDS", 0.2)

    async def silent(_: web.Request) -> web.Response:
        await asyncio.sleep(60)
        return web.Response()

    for handler, seconds in ((silent, 0.2), (endless(b".", 0.02), 0.2), (endless(b".", 0.02), 0.0)):
        assert "no answer within 0.2 s" in str(await error_of(handler, get_timeout=seconds))


INPUTS = [b"input %d " % index * 20 for index in range(12)]
COMMITMENTS = [keccak_commitment(data) for data in INPUTS]


class DaServer:
    """A DA server of INPUTS. Requests wait while `is_open` is unset; `failing` gives statuses by commitment."""

    def __init__(self) -> None:
        self.is_open, self.data = asyncio.Event(), list(INPUTS)
        self.is_open.set()
        self.failing: dict[Commitment, int] = {}
        self.asked: Counter[Commitment] = Counter()
        self.at_once = self.most_at_once = 0

    async def handler(self, request: web.Request) -> web.Response:
        by_path = {f"/get/0x{item.encode().hex()}": index for index, item in enumerate(COMMITMENTS)}
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
        """Return the failures of fetches that began after that request; those of earlier ones may still arrive."""
        return [answer for answer in self.answers if isinstance(answer, InputUnavailable) and answer.number == number]


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[InputsClient]:
    server = DaServer()
    async with listening(app_for_every_path(server.handler)) as urls:
        config = BlobsConfig(None, da_servers={"": DaServerConfig(urls[0], **options)})
        async with running_stage("blobs", lambda bus, meter: blobs.build(config, bus, meter)) as buses:
            try:
                yield InputsClient(buses, server)
            finally:
                server.is_open.set()


@pytest.fixture
async def inputs() -> AsyncIterator[InputsClient]:
    async with running() as client:
        yield client


async def test_an_input_fetched_ahead_is_there_when_it_is_needed(inputs: InputsClient) -> None:
    inputs.request(0, 1, urgent=False)
    await until(lambda: len(inputs.server.asked) == 2)
    inputs.request(2)
    await until(lambda: inputs.answers)
    assert inputs.answers == [InputResponse(COMMITMENTS[2], INPUTS[2])], "only what is waited for is sent"
    inputs.server.is_open.clear()
    inputs.request(1)
    await until(lambda: len(inputs.answers) == 2)
    assert inputs.server.asked[COMMITMENTS[1]] == 1


async def test_failures_are_answered_and_retried_until_the_input_is_there(
    inputs: InputsClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_requests, "FIRST_PAUSE", 0.05)
    for number, (status, not_found) in enumerate(((404, True), (500, False)), start=1):
        inputs.server.failing[COMMITMENTS[0]] = status
        inputs.request(0, number=number)
        await until(partial(inputs.of_request, number))
        answer = inputs.of_request(number)[0]
        assert (answer.commitment, answer.not_found) == (COMMITMENTS[0], not_found)
        await until(lambda: inputs.health)
        assert inputs.health[0].startswith("input of a commitment: 127.0.0.1:")
    inputs.server.failing.clear()
    inputs.request(0)
    await until(lambda: InputResponse(COMMITMENTS[0], INPUTS[0]) in inputs.answers)
    await until(lambda: not inputs.health)


async def test_a_wrong_input_that_cannot_be_verified_does_not_survive_a_start() -> None:
    """Whether it was used, fetched ahead of need, or was on its way."""
    async with running(verify_on_read=False, max_requests=3) as client:
        client.server.data[:3] = [b"wrong"] * 3
        client.request(0)
        client.request(1, urgent=False)
        await until(lambda: client.answers == [InputResponse(COMMITMENTS[0], b"wrong")])
        await until(lambda: client.server.asked[COMMITMENTS[1]])
        client.request(0)
        await until(lambda: len(client.answers) == 2)
        assert client.server.asked[COMMITMENTS[0]] == 1, "within a start it is cached"
        client.server.is_open.clear()
        client.request(2, urgent=False)
        await until(lambda: client.server.asked[COMMITMENTS[2]])
        client.server.data[:2] = INPUTS[:2]
        client.answers.clear()
        client.request(0, 1, 2, start=2)
        await until(lambda: client.server.at_once == 3)
        client.server.is_open.set()
        await until(lambda: client.server.asked[COMMITMENTS[2]] == 2)
        await until(lambda: len(client.answers) == 3)
        assert [answer for answer in client.answers if answer.commitment != COMMITMENTS[2]] == [
            InputResponse(COMMITMENTS[index], INPUTS[index]) for index in (0, 1)
        ]


async def test_a_failure_names_the_last_request_before_the_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_requests, "FIRST_PAUSE", 0.05)
    async with running(max_requests=2) as client:
        client.server.failing[COMMITMENTS[0]] = 404
        client.server.is_open.clear()
        client.request(0, number=1)
        await until(lambda: client.server.asked[COMMITMENTS[0]])
        client.request(0, number=2)
        client.request(1, urgent=False)
        await until(lambda: client.server.asked[COMMITMENTS[1]])
        client.server.is_open.set()
        await until(lambda: len(client.answers) >= 2)
        first, second = client.answers[:2]
        assert isinstance(first, InputUnavailable) and isinstance(second, InputUnavailable)
        assert (first.number, second.number) == (1, 2)


@pytest.mark.option("altda.max-concurrent-da-requests")
@pytest.mark.parametrize("most", [1, 3])
async def test_requests_at_the_same_time_are_bounded(most: int) -> None:
    async with running(max_requests=most) as client:
        client.server.is_open.clear()
        client.request(*range(1, 9), urgent=False)
        await until(lambda: client.server.at_once == most)
        client.server.is_open.set()
        await until(lambda: len(client.server.asked) == 8)
        assert client.server.most_at_once == most


async def test_a_fetch_ahead_that_hangs_gives_way_to_what_is_waited_for(inputs: InputsClient) -> None:
    inputs.server.is_open.clear()
    inputs.request(0, urgent=False)
    await until(lambda: inputs.server.asked[COMMITMENTS[0]])
    inputs.request(1)
    await until(lambda: inputs.server.asked[COMMITMENTS[1]])
    inputs.server.is_open.set()
    await until(lambda: inputs.answers == [InputResponse(COMMITMENTS[1], INPUTS[1])])
    await until(lambda: inputs.server.asked[COMMITMENTS[0]] == 2)


@pytest.mark.sign("ALTDA-UNREACHABLE", line=True)
@pytest.mark.parametrize(
    "status, code, words",
    [(404, Code.ALTDA_MISSING, "does not have"), (503, Code.ALTDA_UNREACHABLE, "HTTP status 503")],
)
async def test_an_input_that_stays_away_is_one_line_with_the_words_of_the_server(
    inputs: InputsClient, status: int, code: Code, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log.set_level(log.Level.INFO)
    inputs.server.failing = {COMMITMENTS[0]: status, COMMITMENTS[1]: status}
    inputs.request(1, urgent=False)
    inputs.request(0)
    await until(lambda: inputs.server.asked[COMMITMENTS[0]] >= 2 and inputs.server.asked[COMMITMENTS[1]])
    inputs.server.failing.clear()
    input_response = InputResponse(COMMITMENTS[0], INPUTS[0])
    await until(lambda: input_response in inputs.answers)
    lines = [line for line in capsys.readouterr().err.splitlines() if "code=" in line]
    assert [line.split()[0] for line in lines] == ["warn", "info"] and all(
        f"code={code.text} " in line for line in lines
    )
    assert words in lines[0] and str(COMMITMENTS[0]) in lines[0] and lines[0].endswith(f"do={code.remedy}")
