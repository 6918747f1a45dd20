"""`rollup-node check`: every finding of a run, each wrong set-up with its code."""

import asyncio
import json
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import mock

import pytest
from aiohttp import web

from rollup_node.node.checks.finding import ok
from rollup_node.stages.io.http.endpoint_errors import EndpointError
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.preflight import preflight
from tests.support.engine.remote_signers import TlsSetUp
from tests.support.processes.cli import Cli
from tests.support.processes.programs import FinishedProgram
from tests.support.servers.checked_endpoints import BATCHER, METHODS, SECRET, CheckedEndpoints
from tests.support.servers.loopback import free_port, own_address
from tests.support.servers.threads import in_thread

Shown = list[dict[str, str | None]]
JWT = "--l2.jwt-secret=jwt.hex"


@pytest.fixture(autouse=True)
def working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty one: files of a node have relative paths by default.

    What memory this machine has is no matter here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(preflight, "check_memory", lambda: ok("memory", "enough"))
    (tmp_path / "jwt.hex").write_text(SECRET.hex())
    return tmp_path


@pytest.fixture
def endpoints() -> CheckedEndpoints:
    return CheckedEndpoints()


def words(l1: str, engine: str, beacon: str, *more: str) -> list[str]:
    value = ["--network=zora-sepolia", f"--l1={l1}", f"--l2={engine}", f"--l1.beacon={beacon}", JWT]
    value += [f"--rpc.addr={own_address()}", "--rpc.port=0", f"--p2p.listen.ip={own_address()}", "--p2p.listen.tcp=0"]
    names = {word.partition("=")[0] for word in more}
    return [word for word in value if word.partition("=")[0] not in names] + list(more)


class Findings:
    """What a run has shown, and its exit code."""

    def __init__(self, ended: FinishedProgram) -> None:
        self.code, result = ended.code, json.loads(ended.out)
        assert result["ok"] is (self.code == 0)
        self.shown: Shown = result["findings"]

    def codes(self, level: str = "error") -> set[str | None]:
        return {item["code"] for item in self.shown if item["level"] == level}

    def text_of(self, code: str) -> str:
        return next(f"{item['text']} -> {item['remedy']}" for item in self.shown if item["code"] == code)


Check = Callable[..., Findings]


@pytest.fixture
def run(cli: Cli) -> Check:
    """Run the command with these words."""
    return lambda *arguments: Findings(cli("check", "--json", *arguments))


@pytest.fixture
def check(endpoints: CheckedEndpoints, run: Check) -> Check:
    """Run the command at the endpoints, with further words."""

    def checked(*more: str) -> Findings:
        with endpoints.served() as urls:
            return run(*words(*urls, *more))

    return checked


def test_a_good_set_up_has_no_findings_and_writes_no_file(
    endpoints: CheckedEndpoints, check: Check, tmp_path: Path
) -> None:
    done = check()
    assert {item["level"] for item in done.shown} == {"ok"}, [item for item in done.shown if item["level"] != "ok"]
    checks = " ".join(str(item["check"]) for item in done.shown)
    subjects = ("options", "--l2.jwt-secret", "L1 ", "engine ", "beacon ", "clock ", "--rpc.port", "disk", "memory")
    assert [subject for subject in (*subjects, "peers") if subject not in checks] == []
    assert [item.name for item in tmp_path.iterdir()] == ["jwt.hex"]
    assert f"eth/v1/beacon/blobs/{endpoints.slot_of(endpoints.origin_time)}" in endpoints.paths


def test_l1_and_engine_behind_sockets(endpoints: CheckedEndpoints, run: Check, tmp_path: Path) -> None:
    """[WSK7, WSK9, OPT13] Without a secret, and without a clock to compare."""
    (tmp_path / "jwt.hex").unlink()
    with endpoints.served() as (_, _, beacon), endpoints.served_over_ipc(tmp_path) as (l1, engine):
        done = run(*words(l1, engine, beacon))
        wrong = run(*words(l1, f"{tmp_path}/none.ipc", beacon))
    assert done.code == 0 and {item["level"] for item in done.shown} == {"ok"}, done.shown
    checks = [item["check"] for item in done.shown]
    assert f"L1 {l1}" in checks and f"engine {engine}" in checks and f"clock {l1}" not in checks
    assert wrong.codes() == {"ENGINE-UNREACHABLE"}
    assert f"{tmp_path}/none.ipc: cannot connect (No such file or directory)" in wrong.text_of("ENGINE-UNREACHABLE")
    assert not (tmp_path / "jwt.hex").exists()


def test_findings_for_people_are_aligned_and_end_with_the_errors(endpoints: CheckedEndpoints, cli: Cli) -> None:
    endpoints.engine["eth_chainId"] = "0x1"
    del endpoints.l1["eth_getBlockReceipts"]
    with endpoints.served() as urls:
        ended = cli("check", *words(*urls))
    *lines, summary = ended.out.splitlines()
    levels = [line[:11].strip() for line in lines if line[:11].strip()]
    order = ["ok", "not checked", "warning", "error"]
    assert levels == sorted(levels, key=order.index) and set(levels) == set(order)
    assert lines[-2].endswith(f"1, expected 999999999 ({urls[1][7:]})")
    assert "ENGINE-CHAIN: incorrect L2 RPC chain id 1" in lines[-2]
    assert lines[-1].strip() == f"-> {Code.ENGINE_CHAIN.remedy}"
    assert summary.endswith(", 2 not checked, 1 warning, 1 error") and ended.code == 1


def test_what_the_engine_says_of_itself(endpoints: CheckedEndpoints, check: Check) -> None:
    """[ENG41, ENG42]"""
    done = check("--l2.enginekind=geth", "--override.karst=4000000000")
    assert done.code == 0 and done.codes("warning") == {"ENGINE-KIND", "FORK-SCHEDULE"}
    text = "--l2.enginekind=geth is given, and the engine says that it is OP-Reth"
    assert done.text_of("ENGINE-KIND").startswith(text)
    endpoints.engine["debug_chainConfig"] = {"jovianTime": 1763568001}
    done = check("--l2.enginekind=reth", "--override.karst=4000000000")
    assert done.code == 0 and done.codes("warning") == {"FORK-MISMATCH", "FORK-SCHEDULE"}
    assert "and the engine's configuration has no karstTime" in done.text_of("FORK-MISMATCH")
    assert "-> use --override.karst=1781712001, or a newer rollup.json" in done.text_of("FORK-SCHEDULE")


def test_a_chain_with_others_in_its_set(run: Check) -> None:
    """[FSR13, UPG22] Also where nothing else can be asked."""
    value = ("--network=op-sepolia", "--l2=http://127.0.0.1:1", "--l1=http://127.0.0.1:1", "--rpc.port=0")
    done = run(*value, "--l1.beacon.ignore", "--p2p.disable")
    assert "LOCAL-SAFE" in done.codes("warning") and "BUNDLE-UNCONFIRMED" in done.codes()
    assert done.text_of("LOCAL-SAFE").startswith(
        "from 2026-12-10T16:00:01Z on, safe heads are not verified across chains: the dependency set is 1301,"
    )
    done = run(*value, "--p2p.disable", "--l2.follow.source=http://127.0.0.1:1/11155420/")
    assert {"LOCAL-SAFE", "BUNDLE-UNCONFIRMED"} & (done.codes() | done.codes("warning")) == set()


Change = Callable[[CheckedEndpoints], object]


def instead(endpoint: str, status: int, text: str, date: str | None = None) -> Change:
    """Return the change by which an endpoint answers every request like this."""

    def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers={"Date": date} if date else {})

    return lambda endpoints: endpoints.instead.update({endpoint: answer})


def changed(part: str, **values: object) -> Change:
    """Return the change of these values of a part of the endpoints."""
    return lambda endpoints: getattr(endpoints, part).update(values)


def beacon(path: str, **data: str) -> Change:
    """Return the change of the data at a path of the beacon node."""
    return lambda endpoints: endpoints.beacon.update({path: data})


def safe_blobs(answer: object) -> Change:
    """Return the change of the blobs of the safe head's origin."""
    return lambda endpoints: endpoints.blobs_of.update({endpoints.slot_of(endpoints.origin_time): answer})


OLD = [method for method in METHODS if not method.endswith(("V4", "V5"))]
CUSTODY = "node does not custody enough columns"
WRONG: dict[str, tuple[Change, str, str]] = {
    "another L1": (changed("l1", eth_chainId="0x1"), "L1-CHAIN", "expected 11155111"),
    "an L1 that fails": (instead("l1", 404, ""), "L1-UNREACHABLE", "HTTP status 404"),
    "a virtual host": (instead("engine", 403, "invalid host specified"), "ENGINE-VHOST", "--authrpc.vhosts"),
    "another secret": (instead("engine", 401, "signature is invalid"), "ENGINE-AUTH", "--l2.jwt-secret"),
    "an engine's clock": (instead("engine", 401, "no", "Mon, 02 Jan 2023 03:04:05 GMT"), "ENGINE-CLOCK", "behind ours"),
    "an old engine": (changed("engine", engine_exchangeCapabilities=OLD), "ENGINE-CAPABILITIES", "engine_newPayloadV4"),
    "a fork that the engine lacks": (
        changed("header", requestsHash=None, extraData="0x" + "00" * 9),
        *("ENGINE-FORKS", "it lacks requestsHash, its extraData has 9 bytes, not 17"),
    ),
    "a safe head of another fork": (
        changed("engine", eth_getTransactionByBlockNumberAndIndex={"input": "0x00"}),
        *("ENGINE-FORKS", "the safe head cannot be read"),
    ),
    "a beacon node of another deposit contract": (
        beacon("eth/v1/config/deposit_contract", chain_id="1"),
        *("BEACON-CHAIN", "its deposit contract is on chain"),
    ),
    "a beacon node that fails": (instead("beacon", 503, "starting"), "BEACON-UNREACHABLE", "HTTP status 503"),
    "another block time": (
        lambda e: setattr(e, "block_time", 1),
        *("ROLLUP-CONFIG", "are 1 s apart, block_time is 2 -> compare block_time"),
    ),
    "no blobs for the safe head": (safe_blobs([]), "BLOB-NOT-FOUND", "13d21h old"),
    "too few data columns": (safe_blobs(CUSTODY), "BLOB-CUSTODY", "does not custody enough columns"),
}


@pytest.mark.sign("BLOB-CUSTODY", "ENGINE-VHOST", "ENGINE-AUTH", check=True)
@pytest.mark.condition("C7")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_has_a_code(name: str, endpoints: CheckedEndpoints, check: Check) -> None:
    """And nothing but that is an error."""
    change, expected, text = WRONG[name]
    change(endpoints)
    done = check()
    assert done.code == 1 and done.codes() == {expected}, done.shown
    assert text in done.text_of(expected)


def test_warnings_do_not_fail(endpoints: CheckedEndpoints, check: Check) -> None:
    endpoints.now -= 1200
    del endpoints.l1["eth_getProof"], endpoints.engine["eth_getProof"]
    dead = f"/ip4/{own_address()}/tcp/{free_port()}/p2p/16Uiu2HAmJhfG1LTk9eYYpXqLxNuZBXKDaQEzQHtrMF8pkkNUpmTF"
    done = check(f"--p2p.static={dead}")
    assert done.code == 0, done.shown
    assert done.codes("warning") == {"L1-HEAD", "L1-METHODS", "ENGINE-METHODS", "PEER-UNREACHABLE"}


def test_what_l1_says_of_the_chain(endpoints: CheckedEndpoints, check: Check) -> None:
    endpoints.inbox, endpoints.gas_limit, endpoints.senders = bytes(20), 40_000_000, [bytes(20)]
    done = check()
    assert done.code == 0 and done.codes("warning") == {"ROLLUP-CONFIG"}, done.shown
    texts = [str(item["text"]) for item in done.shown if item["code"] == "ROLLUP-CONFIG"]
    inbox, gas, batcher = texts
    assert inbox.endswith(f"the contract has {to_hex(bytes(20))}") and "has gas limit 30000000, the contract 4" in gas
    assert batcher.endswith(f"8 transactions to the inbox, and none of the batcher {to_hex(BATCHER)}")


def test_what_l1_does_not_say_is_no_error(
    endpoints: CheckedEndpoints, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    del endpoints.l1["eth_call"]
    for failure in (EndpointError("L1", "HTTP status 403"), TimeoutError()):
        monkeypatch.setattr(preflight, "check_inbox", mock.AsyncMock(side_effect=failure))
        done = check()
        left = {item["check"] for item in done.shown if item["level"] == "not checked"}
        assert done.code == 0 and left == {"system config", "batch inbox"}


@pytest.mark.fault("F11")
def test_clocks_apart_are_a_warning(endpoints: CheckedEndpoints, check: Check) -> None:
    def early(request: web.Request) -> web.Response:
        answer = endpoints._beacon_answer(request)
        answer.headers["Date"] = "Fri, 01 Jan 2038 00:00:00 GMT"
        return answer

    endpoints.instead["beacon"] = early
    done = check()
    assert done.code == 0 and done.codes("warning") == {"CLOCK"} and "ahead of ours" in done.text_of("CLOCK")


def test_swapped_endpoints_are_named(endpoints: CheckedEndpoints, run: Check) -> None:
    with endpoints.served() as (l1, engine, beacon_url):
        done = run(*words(beacon_url, engine, l1))
    assert done.codes() == {"ENDPOINTS-SWAPPED"}
    texts = " ".join(str(item["text"]) for item in done.shown)
    assert "of --l1 is a beacon node" in texts and "of --l1.beacon is an execution node" in texts


def test_one_l1_endpoint_is_enough(endpoints: CheckedEndpoints, run: Check) -> None:
    with endpoints.served() as (l1, engine, beacon_url):
        done = run(*words(f"http://127.0.0.1:1,{l1}", engine, beacon_url))
    assert done.code == 0 and done.codes("warning") == {"L1-UNREACHABLE"}


def test_tls_on_one_side_alone(endpoints: CheckedEndpoints, run: Check) -> None:
    with endpoints.served() as urls:
        done = run(*words(*(url.replace("http:", "https:") for url in urls)))
    assert done.code == 1 and done.codes() == {"TLS-PORT"}
    assert sum(item["code"] == "TLS-PORT" for item in done.shown) == 3


def test_an_untrusted_certificate(endpoints: CheckedEndpoints, run: Check, tmp_path: Path) -> None:
    """A TLS server whose certificate nobody knows."""
    (tmp_path / "tls").mkdir()
    context = TlsSetUp(tmp_path / "tls").server_context()
    context.verify_mode = ssl.CERT_NONE
    server = asyncio.start_server(lambda reader, writer: writer.close(), own_address(), 0, ssl=context)
    with endpoints.served() as (_, engine, beacon_url), in_thread(_started(server)) as port:
        done = run(*words(f"https://{own_address()}:{port}", engine, beacon_url))
    assert done.code == 1 and done.codes() == {"TLS-CERTIFICATE"}


@asynccontextmanager
async def _started(server: Awaitable[asyncio.Server]) -> AsyncIterator[int]:
    async with await server as started:
        yield started.sockets[0].getsockname()[1]


@pytest.mark.condition("C11")
def test_everything_wrong_comes_in_one_run(run: Check, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "jwt.hex").write_text("xx")
    nowhere = "http://127.0.0.1:1"
    with socket.create_server((own_address(), 0)) as taken:
        port = f"--rpc.port={taken.getsockname()[1]}"
        arguments = words(nowhere, nowhere, nowhere, port, "--safedb.path=file/safedb")
        arguments += [f"--signer.endpoint={nowhere}", "--signer.tls.enabled=false"]
        done = run(*arguments, "--signer.address=0x" + "11" * 20, "--sequencer.enabled")
    assert done.code == 1
    unreachable = {"L1-UNREACHABLE", "ENGINE-UNREACHABLE", "BEACON-UNREACHABLE", "SIGNER-UNREACHABLE"}
    assert done.codes() == unreachable | {"JWT-FILE", "PORT-TAKEN", "DIRECTORY"}
    reasons = {item["check"]: item["text"] for item in done.shown if item["level"] == "not checked"}
    assert reasons["engine 127.0.0.1:1"] == "there is no JWT secret to ask it with"
    assert {"blobs of the L1 head", "blobs of the safe head"} <= set(reasons)


def test_wrong_options_are_findings(run: Check) -> None:
    done = run("--network=op-sepolia", "--rpc.port=x", "--l2=http://127.0.0.1:1")
    assert done.code == 1 and done.codes() == {"OPTIONS"}
    assert any("rpc.port" in str(item["text"]) for item in done.shown)
    assert done.shown[-1]["level"] == "not checked"


def test_a_secret_that_is_still_to_be_made(check: Check, tmp_path: Path) -> None:
    done = check("--l2.jwt-secret=none.hex")
    assert done.code == 0 and done.codes("warning") == {"JWT-FILE"}
    assert not (tmp_path / "none.hex").exists()


def test_the_document_names_every_finding() -> None:
    """And each is found by some check."""
    root = Path(__file__).resolve().parents[3]
    section = (root / "docs" / "operations.md").read_text().split("## Check before a start")[1].split("\n## ")[0]
    named = set(re.findall(r"`([A-Z0-9]+(?:-[A-Z0-9]+)+|OPTIONS|CLOCK|DISK|DIRECTORY)`", section))
    findings = {code.text for code in Code if code.is_finding}
    assert findings <= named <= {code.text for code in Code}
    sources = "".join(path.read_text() for top in ("node", "tools") for path in (root / top).rglob("*.py"))
    assert not [code.name for code in Code if code.is_finding and f"Code.{code.name}" not in sources]


def test_all_chains_of_a_supernode(endpoints: CheckedEndpoints, run: Check, tmp_path: Path) -> None:
    """Named by a file alone; what all chains have in common stands once, the rest with its chain [SNO6]."""
    with endpoints.served() as (l1, engine, beacon):
        shared = f'data-dir = "data"\nl1.value = "{l1}"\nl1.beacon = "{beacon}"\nrpc.port = 0\n[vn.all]\nl2.value = '
        secret = f'"{engine}"\nl2.jwt-secret = "jwt.hex"\np2p.disable = true\nnetwork = "zora-sepolia"'
        (tmp_path / "supernode.toml").write_text(f"chains = [999999999, 10]\n{shared}{secret}")
        done = run("--config=supernode.toml")
        assert done.codes() == {"OPTIONS"}
        text = "chain 10: vn.all.network in file supernode.toml is chain 999999999"
        assert [item["text"] for item in done.shown if item["level"] == "error"] == [text]
        (tmp_path / "supernode.toml").write_text(f"chains = [999999999]\n{shared}{secret}")
        right = run("--config=supernode.toml")
        assert right.code == 0 and not right.codes(), right.shown
        endpoints.engine["eth_chainId"] = "0x1"
        wrong = run("--config=supernode.toml")
    assert wrong.codes() == {"ENGINE-CHAIN"}
    (check,) = (item["check"] for item in wrong.shown if item["code"] == "ENGINE-CHAIN")
    assert str(check).startswith("chain 999999999: engine 127.0.0.1:")
