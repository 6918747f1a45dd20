"""The conductor's client against a conductor on loopback [CND1 to CND3]."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest

from rollup_node.stages.engine.calls.io.conductor_client import (
    ATTEMPTS,
    MAX_ANSWER,
    MAX_CALL_SECONDS,
    PAUSE_SECONDS,
    ConductorClient,
    encode_envelope,
)
from rollup_node.stages.engine.calls.neighbour_api import CommitPayload, Committed, GetLeader, Leadership
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.errors import TemporaryError
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.stages.engine.conftest import Play
from tests.support.chains.chain_fixture import ChainFixture, make_rollup
from tests.support.engine.fake_conductor import NOT_LEADER, FakeConductor


@asynccontextmanager
async def client_of(url: str, timeout: float, meter: Meter | None = None) -> AsyncIterator[ConductorClient]:
    client = ConductorClient(url, timeout, meter)
    try:
        yield client
    finally:
        await client.close()


def sealed(chain: ChainFixture) -> ExecutionPayload:
    return chain.payloads[chain.build(1)[1].hash]


def test_the_two_calls_have_the_forms_of_the_conductor(chain: ChainFixture, play: Play) -> None:
    payload = sealed(chain)
    assert payload.parent_beacon_root is not None

    async def scene() -> None:
        meter = Meter("engine")
        async with FakeConductor().serving() as conductor, client_of(conductor.url, 1.0, meter) as client:
            assert conductor.requests == [], "the connection is made with the first call"
            assert await client.ask(GetLeader()) == Leadership(True)
            assert await client.ask(CommitPayload(payload)) == Committed()
            conductor.is_leader = False
            assert await client.ask(GetLeader()) == Leadership(False)
        leader, commit, _ = conductor.requests
        assert (leader["method"], leader["params"]) == ("conductor_leader", [])
        assert (commit["method"], commit["params"]) == ("conductor_commitUnsafePayload", [envelope_to_json(payload)])
        assert conductor.committed == [payload]
        labels = b'{method="conductor_leader",rpc="conductor"}'
        assert b"rpc_client_requests_total" + labels + b" 2.0" in meter.text()

    play(scene())


def test_an_envelope_without_beacon_root_has_no_such_member() -> None:
    chain = ChainFixture(make_rollup({"regolith": 0}))
    payload = sealed(chain)
    assert payload.parent_beacon_root is None
    assert b"parentBeaconBlockRoot" not in orjson.dumps(encode_envelope(payload))


FAILURES: list[tuple[str, Any, str]] = [
    ("an error object", {"error": {"code": -32000, "message": "no quorum"}}, "error -32000: no quorum"),
    ("an HTTP status", 503, "HTTP status 503"),
    ("another type", {"result": "yes"}, "the answer to conductor_leader"),
    ("no JSON", b"<html>", "the answer is not JSON"),
    ("too many bytes", b" " * (MAX_ANSWER + 1), f"longer than {MAX_ANSWER} bytes"),
]


@pytest.mark.parametrize(("answer", "text"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_failure_is_tried_twice_and_names_the_conductor(answer: Any, text: str, play: Play) -> None:
    async def scene() -> None:
        async with FakeConductor().serving() as conductor, client_of(conductor.url, 5.0) as client:
            conductor.answers = [answer] * 3
            began = time.monotonic()
            with pytest.raises(TemporaryError) as caught:
                await client.ask(GetLeader())
            assert time.monotonic() - began >= PAUSE_SECONDS
            assert text in str(caught.value) and client.name in str(caught.value)
            assert len(conductor.requests) == ATTEMPTS
            conductor.answers = [answer]
            assert await client.ask(GetLeader()) == Leadership(True), "the second attempt counts"

    play(scene())


def test_a_refused_commit_is_a_failure(chain: ChainFixture, play: Play) -> None:
    async def scene() -> None:
        async with FakeConductor(is_leader=False).serving() as conductor, client_of(conductor.url, 5.0) as client:
            with pytest.raises(TemporaryError, match=NOT_LEADER):
                await client.ask(CommitPayload(sealed(chain)))
            assert conductor.committed == []

    play(scene())


def test_a_hanging_conductor_costs_one_timeout_with_all_attempts(play: Play) -> None:
    async def scene() -> None:
        async with FakeConductor().serving() as conductor, client_of(conductor.url, 0.3) as client:
            conductor.hold.clear()
            began = time.monotonic()
            with pytest.raises(TemporaryError, match=r"no answer within 0\.3 s"):
                await client.ask(GetLeader())
            assert time.monotonic() - began >= 0.3
            assert len(conductor.requests) == 1, "no time is left for a second attempt"
            conductor.hold.set()
            assert await client.ask(GetLeader()) == Leadership(True)

    play(scene())


def test_a_conductor_that_is_away_is_named_and_used_once_it_is_there(play: Play) -> None:
    async def scene() -> None:
        async with FakeConductor().serving() as conductor:
            port = int(conductor.url.split(":")[-1].strip("/"))
        async with client_of(conductor.url, 5.0) as client:
            with pytest.raises(TemporaryError, match=f"127.0.0.1:{port}: cannot connect"):
                await client.ask(GetLeader())
            async with conductor.serving(port):
                assert await client.ask(GetLeader()) == Leadership(True)

    play(scene())


def test_no_call_takes_longer_than_a_commit_may() -> None:
    """[CND5]"""
    client = ConductorClient("http://127.0.0.1:1/", 3600.0)
    assert client._timeout == MAX_CALL_SECONDS


def test_credentials_of_the_url_are_not_shown() -> None:
    assert ConductorClient("http://user:secret@127.0.0.1:8547/key", 1.0).name == "127.0.0.1:8547"
