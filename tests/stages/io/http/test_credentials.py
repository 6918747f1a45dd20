"""No error shows a credential that a server repeats [LHD33]."""

import json
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from aiohttp import web
from yarl import URL

from rollup_node.node.checks.beacon import BeaconReader
from rollup_node.stages.io.http.credentials import SHORT_BODY, Credentials, RequestHeaders
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.l1.process.beacon_client import LightClientEndpoint
from tests.support.servers.http_listener import app_for_every_path, listening

KEY, TOKEN = "0123456789abcdef0123", "s3cr3t-t0ken"
URL_WITH_ALL = URL(f"https://operator1:passw%2Frd1@host/v2/{KEY}/eth?apikey=QUERYKEY1&net=x")


@pytest.mark.parametrize("status", [200, 404])
def test_what_is_secret_is_masked(status: int) -> None:
    of_url = ("operator1", "passw/rd1", "passw%2Frd1", KEY, "QUERYKEY1", "b3BlcmF0b3IxOnBhc3N3L3JkMQ==")
    for secret in (*of_url, f"Bearer {TOKEN}", TOKEN):
        body = f"no such project: {secret}.".encode()
        shown = Credentials(URL_WITH_ALL).masked(body, {"Authorization": f"Bearer {TOKEN}"}, status)
        assert shown == b"no such project: ***.", secret


def test_what_says_nothing_stays() -> None:
    """Short parts of a path, headers that everybody sends."""
    body = b"v2 eth x https host application/json Bearer"
    assert Credentials(URL_WITH_ALL).masked(body, {"Accept": "application/json", "X": "abc"}, 500) == body
    assert Credentials(URL("")).masked(body, {}, 500) == body


def test_data_are_not_changed() -> None:
    """They may have the same words."""
    credentials = Credentials(URL_WITH_ALL)
    for data in (b'{"result":"' + KEY.encode() + b'"}', b'[{"result":"' + KEY.encode() + b'"}]'):
        assert credentials.masked(data, {}, 200) == data
    error = b'{"error":"' + KEY.encode() + b'"}'
    assert credentials.masked(error, {}, 200) == b'{"error":"***"}'
    assert credentials.masked(error + b" " * SHORT_BODY, {}, 200).startswith(error)


async def echo(request: web.Request) -> web.StreamResponse:
    """Answer with all that was sent, cut where a credential would be cut in two if it was masked after that."""
    said = f"{'x' * 140} {request.headers.get('X-Api-Key')} {request.path_qs}"
    if request.method == "POST":
        call = await request.json()
        calls: list[dict[str, Any]] = call if isinstance(call, list) else [call]
        answers = [{"jsonrpc": "2.0", "id": item["id"], "error": {"code": -32000, "message": said}} for item in calls]
        return web.Response(text=json.dumps(answers if isinstance(call, list) else answers[0]))
    return web.Response(text=said, status=200 if "html" in request.path else 403)


def assert_hidden(error: object) -> None:
    for part in (TOKEN[:6], KEY[:6]):
        assert part not in str(error), error


async def test_no_client_shows_what_it_sent() -> None:
    """Beacon APIs at the start, in `check` and in service, and JSON-RPC, alone and in a batch."""
    header = ("X-Api-Key", TOKEN)
    async with listening(app_for_every_path(echo)) as (url,):
        base = f"{url}/{KEY}"
        with pytest.raises(EndpointError, match="HTTP status 403") as refused:
            await BeaconReader(base, header, 5.0).get("eth/v1/beacon/genesis")
        assert_hidden(refused.value)
        endpoint = LightClientEndpoint(base, 5.0, header)
        with pytest.raises(EndpointError, match="HTTP status 403") as refused:
            await endpoint.get("eth/v1/beacon/genesis")
        assert_hidden(refused.value)
        assert_hidden(await endpoint.get("html"))
        assert_hidden(endpoint.masked(f"not a decimal number: {TOKEN}"))
        await endpoint.close()
        headers: Mapping[str, str] = dict([header])
        client = JsonRpcClient(base, headers=lambda: headers)
        with pytest.raises(RpcFailure) as failed:
            await client.call("eth_chainId")
        assert_hidden(failed.value)
        for failure in await client.batch([("eth_chainId", ()), ("eth_chainId", ())]):
            assert isinstance(failure, RpcFailure)
            assert_hidden(failure)
        await client.close()


SECRET = b"\x42" * 32


@pytest.mark.fault("F43", "F58")
def test_the_token_lives_for_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_700_000_000.7]
    monkeypatch.setattr("time.time", lambda: now[0])
    headers = RequestHeaders("http://engine.example:8551", SECRET)
    first = headers()
    claims = jwt.decode(first["Authorization"].removeprefix("Bearer "), options={"verify_signature": False})
    assert claims == {"iat": 1_700_000_000}
    now[0] += 4
    assert headers() is first
    now[0] += 2
    assert headers() != first
    now[0] -= 3_600
    claims = jwt.decode(headers()["Authorization"][7:], options={"verify_signature": False})
    assert claims == {"iat": int(now[0])}, "also after the clock went back"


def test_answers_of_this_machine_are_not_compressed() -> None:
    """[ENG46]"""
    for url in ("http://127.0.0.1:8551", "http://localhost", "http://[::1]:8551"):
        assert RequestHeaders(url, None)() == {"Accept-Encoding": "identity"}
        assert RequestHeaders(url, SECRET)().keys() == {"Accept-Encoding", "Authorization"}
    for url in ("https://engine.example", "http://10.0.0.1:8551", "/run/engine.ipc"):
        assert RequestHeaders(url, None)() == {} and RequestHeaders(url, SECRET)().keys() == {"Authorization"}
