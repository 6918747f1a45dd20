"""Checks before a start, on valid endpoints and on others."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from rollup_node.node.setup.endpoint_checks import (
    NodeEndpoints,
    RetryPolicy,
    check_chains,
    check_endpoints,
    check_engine,
)
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.commands.common import L2SourceCheck
from tests.support.engine.remote_signers import SignerServer, TlsSetUp
from tests.support.servers.certificates import certificate
from tests.support.servers.checked_endpoints import ROLLUP, SECRET, CheckedEndpoints
from tests.support.servers.http_listener import json_rpc_app, listening

SHORT = RetryPolicy(total=0.05, timeout=20.0, max_pause=0.01)
LONG = SHORT._replace(total=50.0)
UNREACHABLE = "http://127.0.0.1:1"
UNKNOWN = {"code": -32601, "message": "the method does not exist"}
Change = Callable[[CheckedEndpoints], object]


def endpoints(l1: str, engine: str, beacon: str, /, **changes: Any) -> NodeEndpoints:
    return NodeEndpoints(ROLLUP, (l1,), engine, SECRET, "jwt.txt", beacon)._replace(**changes)


async def check(checked: CheckedEndpoints, policy: RetryPolicy = SHORT, **changes: Any) -> None:
    """Run the checks on these endpoints."""
    with checked.served() as urls:
        await check_endpoints(endpoints(*urls, **changes), policy)


async def error(checked: CheckedEndpoints, policy: RetryPolicy = SHORT, **changes: Any) -> str:
    with pytest.raises(SetupError) as caught:
        await check(checked, policy, **changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def failing(*failures: Any, then: Any = None) -> Callable[..., Any]:
    """Return a method that fails by these HTTP errors and error objects, one after the other, the last for ever unless
    there is a result for `then`."""
    left = list(failures)

    def respond(*_: object) -> Any:
        if not left:
            return then
        failure = left[0] if then is None and len(left) == 1 else left.pop(0)
        if isinstance(failure, type):
            raise failure()
        return failure

    return respond


@pytest.fixture
def checked() -> CheckedEndpoints:
    return CheckedEndpoints()


async def test_valid_endpoints_pass(checked: CheckedEndpoints) -> None:
    """Only their genesis blocks have the right hashes."""
    keys: list[str] = []

    def answer(request: web.Request) -> web.Response:
        keys.append(request.headers["X-Key"])
        return checked._beacon_answer(request)

    checked.instead["beacon"] = answer
    await check(checked, beacon_header=("X-Key", "secret"))
    assert set(keys) == {"secret"}


LAYERS = [("l1", "l1", ROLLUP.l1_chain_id), ("engine", "l2", ROLLUP.l2_chain_id)]
"""An endpoint, its option and its chain."""


@pytest.mark.parametrize(("name", "layer", "expected"), LAYERS)
async def test_another_chain_or_genesis_is_an_error(
    checked: CheckedEndpoints, name: str, layer: str, expected: int
) -> None:
    methods = getattr(checked, name)
    methods["eth_getBlockByNumber"] = {"hash": "0x" + "12" * 32}
    text = await error(checked)
    assert text.startswith(f"incorrect {layer.upper()} genesis block hash 0x{'12' * 32}, expected 0x")
    methods["eth_chainId"] = "0x1"
    text = await error(checked)
    assert text.startswith(f"incorrect {layer.upper()} RPC chain id 1, expected {expected}")
    assert f"check --{layer}, and --network or --rollup.config" in text


@pytest.mark.parametrize(("name", "layer", "expected"), LAYERS)
async def test_a_pruned_genesis_passes_and_a_malformed_one_does_not(
    checked: CheckedEndpoints, name: str, layer: str, expected: int
) -> None:
    methods = getattr(checked, name)
    for pruned in (4444, "pruned history unavailable"), (-32000, "header not found"):
        methods["eth_getBlockByNumber"] = dict(zip(("code", "message"), pruned, strict=True))
        await check(checked)
    methods["eth_getBlockByNumber"] = None
    await check(checked)
    malformed = [("eth_getBlockByNumber", block) for block in ({"hash": 5}, "0x", [1])]
    for method, response in (*malformed, ("eth_chainId", "eleven"), ("eth_chainId", None)):
        methods[method] = response
        assert (await error(checked)).startswith(f"the {layer.upper()} endpoint 127.0.0.1:")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"l1": (UNREACHABLE,)}, "L1 cannot be used, 127.0.0.1:"),
        ({"l2": UNREACHABLE}, "the execution engine cannot be used, 127.0.0.1:"),
        (
            {"beacon": UNREACHABLE},
            "failed to check L1 Beacon API version: the L1 beacon node cannot be used, 127.0.0.1:",
        ),
    ],
)
async def test_an_unreachable_endpoint_is_named(checked: CheckedEndpoints, changes: dict[str, Any], text: str) -> None:
    line = await error(checked, **changes)
    assert line.startswith(text)
    assert f"--{next(iter(changes))}".replace("beacon", "l1.beacon") in line.partition("Connection refused")[2]


async def check_with_signer(signer: SignerServer, **changes: Any) -> None:
    """Run the checks on valid endpoints and a remote signer."""
    async with signer.running():
        await check(CheckedEndpoints(), signer=signer.config(**changes))


async def test_a_remote_signer_is_asked_for_its_health_once() -> None:
    signer = SignerServer()
    await check_with_signer(signer, headers=(("X-Key", "secret"),))
    assert [call["method"] for call in signer.calls] == ["health_status"]
    assert signer.headers[0]["X-Key"] == "secret"


@pytest.mark.parametrize(
    ("changes", "answer", "text"),
    [
        ({"endpoint": UNREACHABLE}, None, "127.0.0.1:1: cannot connect (Connection refused)"),
        ({}, UNKNOWN, "health_status: error -32601"),
        ({}, 5, "does not answer health_status like a signer"),
        ({"tls_enabled": True, "tls_cert": "none"}, None, "cannot read signer.tls.cert none"),
    ],
)
async def test_a_remote_signer_that_cannot_be_used_ends_the_start(
    changes: dict[str, Any], answer: Any, text: str
) -> None:
    signer = SignerServer()
    signer.answer = answer
    with pytest.raises(SetupError) as caught:
        await check_with_signer(signer, **changes)
    assert str(caught.value).startswith("the remote signer cannot be used, ") and text in str(caught.value)
    assert "check --signer.endpoint" in str(caught.value) and "\n" not in str(caught.value)


async def test_a_remote_signer_with_a_wrong_certificate_ends_the_start(
    checked: CheckedEndpoints, tmp_path: Path
) -> None:
    files = TlsSetUp(tmp_path)
    (tmp_path / "ca.crt").write_bytes(certificate("other authority").pem)
    async with SignerServer().running(files.server_context()) as signer:
        with pytest.raises(SetupError, match=r"TLS: certificate not accepted, .*check .*--signer\.tls\.ca"):
            await check(checked, signer=files.config(signer.endpoint))


CONFIG = {"l2_chain_id": ROLLUP.l2_chain_id, "genesis": {"l2": {"hash": to_hex(ROLLUP.genesis.l2.hash), "number": 0}}}


@pytest.mark.parametrize(
    ("config", "warning"),
    [
        (CONFIG, ""),
        (failing(web.HTTPNotFound), "HTTP status 404"),
        (failing(web.HTTPServiceUnavailable), "HTTP status 503"),
        ({}, "the answer to optimism_rollupConfig"),
        (UNKNOWN, "optimism_syncStatus"),
        (None, "127.0.0.1:1: cannot connect (Connection refused)"),
    ],
)
async def test_a_follow_source_that_is_away_is_a_warning(
    checked: CheckedEndpoints, capsys: pytest.CaptureFixture[str], config: Any, warning: str
) -> None:
    """[FSR8] At once: the node follows gossip without it.

    An execution client has no optimism_rollupConfig, as an old rollup node, and no heads either."""
    checked.l1 |= {"optimism_rollupConfig": config, "optimism_syncStatus": UNKNOWN}
    await check_with_follow_source(checked, UNREACHABLE if config is None else None)
    log = capsys.readouterr().err
    assert ("the check of the follow source failed" in log) is bool(warning) and warning in log


async def test_a_follow_source_has_to_be_of_the_chain(checked: CheckedEndpoints) -> None:
    """[FSR8]"""
    other = {"l2": {"hash": to_hex(bytes(32)), "number": 0}}
    checked.l1["optimism_rollupConfig"] = CONFIG | {"genesis": other}
    text = f"is on L2 chain {ROLLUP.l2_chain_id} with genesis 0x0000.*: check --l2.follow.source"
    with pytest.raises(SetupError, match=text):
        await check_with_follow_source(checked)


async def check_with_follow_source(checked: CheckedEndpoints, url: str | None = None) -> None:
    """Run the checks with what L1 answers as the follow source."""
    with checked.served() as (l1, engine, beacon):
        await check_endpoints(endpoints(l1, engine, beacon, beacon=None, follow=url or l1), LONG)


@pytest.mark.parametrize(
    "failures",
    [
        (web.HTTPServiceUnavailable, web.HTTPServiceUnavailable),
        (web.HTTPInternalServerError,),
        ({"code": -32005, "message": "slow down"},),
    ],
)
async def test_an_endpoint_that_starts_late_is_retried(checked: CheckedEndpoints, failures: tuple[Any, ...]) -> None:
    checked.l1["eth_chainId"] = failing(*failures, then=hex(ROLLUP.l1_chain_id))
    await check(checked, LONG)
    checked.l1["eth_chainId"] = failing(*failures)
    assert (await error(checked)).startswith("L1 cannot be used, "), "it keeps failing"


@pytest.mark.parametrize("response", [UNKNOWN, web.HTTPNotFound])
async def test_a_final_error_is_not_retried(checked: CheckedEndpoints, response: Any) -> None:
    checked.l1["eth_chainId"] = failing(response, then=hex(ROLLUP.l1_chain_id))
    assert (await error(checked, LONG)).startswith("L1 cannot be used, ")


async def test_one_of_several_l1_endpoints_is_enough_and_each_that_responds_is_checked(
    checked: CheckedEndpoints,
) -> None:
    async with listening(json_rpc_app({"eth_chainId": lambda: "0x5"})) as (other,):
        with checked.served() as (l1, engine, beacon):
            await check_endpoints(endpoints(l1, engine, beacon, l1=(UNREACHABLE, l1)), SHORT)
            with pytest.raises(SetupError, match="incorrect L1 RPC chain id 5"):
                await check_endpoints(endpoints(l1, engine, beacon, l1=(l1, other)), SHORT)


@pytest.mark.parametrize("response", [404, 503, {}, {"genesis_time": 5}, {"genesis_time": "soon"}, []])
async def test_an_invalid_beacon_node_is_an_error_unless_ignored(checked: CheckedEndpoints, response: Any) -> None:
    """One that is ignored does not delay the start."""
    checked.beacon["eth/v1/beacon/genesis"] = response
    assert (await error(checked)).startswith("failed to check L1 Beacon API version: ")
    await check(checked, beacon=None)
    checked.paths.clear()
    await check(checked, LONG, beacon_may_fail=True)
    assert checked.paths.count("eth/v1/beacon/genesis") == 1


@pytest.mark.sign("ENGINE-VHOST", line=True)
@pytest.mark.parametrize(
    ("code", "change", "text"),
    [
        (
            Code.ENGINE_PUBLIC_PORT,
            lambda e: e.engine.pop("engine_exchangeCapabilities"),
            "has no Engine API .*set --l2 to the authenticated port",
        ),
        (
            Code.ENGINE_VHOST,
            lambda e: e.instead.update(engine=lambda _: web.Response(status=403, text="invalid host specified")),
            "does not accept the host name of --l2 .*--authrpc.vhosts",
        ),
        (
            Code.BEACON_CHAIN,
            lambda e: e.beacon.update({"eth/v1/beacon/genesis": {"genesis_time": "1606824023"}}),
            "failed to check L1 Beacon API version: .* is of another chain: its genesis time is 1606824023",
        ),
    ],
)
async def test_a_start_names_the_cause(checked: CheckedEndpoints, code: Code, change: Change, text: str) -> None:
    """At once, with what to do: none of them goes away by itself."""
    change(checked)
    with pytest.raises(SetupError, match=text) as result:
        await check(checked, LONG)
    assert str(result.value).endswith(f"{code.remedy} ({code.text})")


@pytest.mark.parametrize(
    ("name", "secret", "text"),
    [
        ("l1", b"", "incorrect L2 RPC chain id 11155111, expected 999999999"),
        ("engine", b"", r"rejects our JWT .*--l2.jwt-secret \(now none given\)"),
        ("engine", b"\1" * 32, "rejects our JWT"),
        ("engine", SECRET, None),
    ],
)
async def test_the_l2_source_of_a_command(
    checked: CheckedEndpoints, name: str, secret: bytes, text: str | None
) -> None:
    with checked.served() as (l1, engine, _):
        source = NodeEndpoints(ROLLUP, (), l1 if name == "l1" else engine, secret, "none given")
        with nullcontext() if text is None else pytest.raises(SetupError, match=text):
            await check_engine(L2SourceCheck(source, SHORT.timeout), SHORT)


async def test_an_engine_of_one_of_several_chains_is_named_with_its_chain(checked: CheckedEndpoints) -> None:
    """[SNO6] One that does not answer is a warning; what is as before is not asked again."""
    with checked.served() as urls:
        right = endpoints(*urls)
        await check_chains([right, right._replace(l2=UNREACHABLE)], SHORT)
        other = right._replace(rollup=msgspec.structs.replace(ROLLUP, l2_chain_id=7))
        with pytest.raises(SetupError, match=r"^chain 7: incorrect L2 RPC chain id 999999999, expected 7"):
            await check_chains([right, other], SHORT)
    await check_chains([right, right], SHORT, [right, right])
