"""`rollup-node check`: every finding of a run, each wrong set-up with its code."""

import json
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rollup_node.node import cli
from rollup_node.node.checks.finding import ok
from rollup_node.node.options.parsing import parse_options
from rollup_node.node.setup.plan import plan_node
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.commands.check import _files
from rollup_node.tools.preflight import preflight
from tests.support.servers.checked_endpoints import METHODS, SECRET, CheckedEndpoints
from tests.support.servers.loopback import free_port, own_address

Shown = list[dict[str, str | None]]


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
    value = [
        "--network=zora-sepolia",
        f"--l1={l1}",
        f"--l2={engine}",
        f"--l1.beacon={beacon}",
        "--l2.jwt-secret=jwt.hex",
    ]
    value += [f"--rpc.addr={own_address()}", "--rpc.port=0", f"--p2p.listen.ip={own_address()}", "--p2p.listen.tcp=0"]
    names = {word.partition("=")[0] for word in more}
    return [word for word in value if word.partition("=")[0] not in names] + list(more)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Shown]:
    code = cli.main(["check", "--json", *arguments])
    out = capsys.readouterr().out
    result = json.loads(out)
    assert result["ok"] is (code == 0)
    return code, result["findings"]


def check(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Shown]:
    with endpoints.served() as urls:
        return run(capsys, *words(*urls, *more))


def codes(shown: Shown, level: str = "error") -> set[str | None]:
    return {item["code"] for item in shown if item["level"] == level}


def text_of(shown: Shown, code: str) -> str:
    return next(f"{item['text']} -> {item['remedy']}" for item in shown if item["code"] == code)


def test_a_good_set_up_has_no_findings_and_writes_no_file(
    endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, shown = check(endpoints, capsys)
    assert {item["level"] for item in shown} == {"ok"}, [item for item in shown if item["level"] != "ok"]
    assert code == 0
    checks = " ".join(str(item["check"]) for item in shown)
    for subject in (
        "options",
        "--l2.jwt-secret",
        "L1 ",
        "engine ",
        "beacon ",
        "clock ",
        "--rpc.port",
        "disk",
        "memory",
        "peers",
    ):
        assert subject in checks
    assert [item.name for item in tmp_path.iterdir()] == ["jwt.hex"]
    assert f"eth/v1/beacon/blobs/{endpoints.slot_of(endpoints.origin_time)}" in endpoints.paths


def test_findings_for_people_are_aligned_and_end_with_the_errors(
    endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoints.engine["eth_chainId"] = "0x1"
    del endpoints.l1["eth_getBlockReceipts"]
    with endpoints.served() as urls:
        assert cli.main(["check", *words(*urls)]) == 1
    *lines, summary = capsys.readouterr().out.splitlines()
    levels = [line[:11].strip() for line in lines if line[:11].strip()]
    order = ["ok", "not checked", "warning", "error"]
    assert levels == sorted(levels, key=order.index) and set(levels) == set(order)
    assert lines[-2].endswith(f"{endpoints.engine['eth_chainId'][2:]}, expected 999999999 ({urls[1][7:]})")
    assert "ENGINE-CHAIN: incorrect L2 RPC chain id 1" in lines[-2]
    assert lines[-1].strip() == f"-> {Code.ENGINE_CHAIN.remedy}"
    assert summary.endswith(", 2 not checked, 1 warning, 1 error")


def test_what_the_engine_says_of_itself(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    """[ENG41, ENG42]"""
    code, shown = check(endpoints, capsys, "--l2.enginekind=geth", "--override.karst=4000000000")
    assert code == 0 and codes(shown, "warning") == {"ENGINE-KIND", "FORK-SCHEDULE"}
    assert text_of(shown, "ENGINE-KIND").startswith(
        "--l2.enginekind=geth is given, and the engine says that it is OP-Reth"
    )
    endpoints.engine["debug_chainConfig"] = {"jovianTime": 1763568001}
    code, shown = check(endpoints, capsys, "--l2.enginekind=reth", "--override.karst=4000000000")
    assert code == 0 and codes(shown, "warning") == {"FORK-MISMATCH", "FORK-SCHEDULE"}
    assert "and the engine's configuration has no karstTime" in text_of(shown, "FORK-MISMATCH")
    assert "-> use --override.karst=1781712001, or a newer rollup.json" in text_of(shown, "FORK-SCHEDULE")


def test_a_chain_with_others_in_its_set(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    """[FSR13, UPG22] Also where nothing else can be asked."""
    value = ("--network=op-sepolia", "--l2=http://127.0.0.1:1", "--l1=http://127.0.0.1:1", "--rpc.port=0")
    _, shown = run(capsys, *value, "--l1.beacon.ignore", "--p2p.disable")
    assert "LOCAL-SAFE" in codes(shown, "warning") and "BUNDLE-UNCONFIRMED" in codes(shown)
    assert text_of(shown, "LOCAL-SAFE").startswith(
        "from 2026-12-10T16:00:01Z on, safe heads are not verified across chains: the dependency set is [1301,"
    )
    _, shown = run(capsys, *value, "--p2p.disable", "--l2.follow.source=http://127.0.0.1:1/11155420/")
    assert {"LOCAL-SAFE", "BUNDLE-UNCONFIRMED"} & (codes(shown) | codes(shown, "warning")) == set()


def answering(status: int, text: str, date: str | None = None) -> Callable[[web.Request], web.Response]:
    def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=text, headers={"Date": date} if date else {})

    return answer


def without(methods: dict[str, Any], *names: str) -> None:
    for name in names:
        del methods[name]


WRONG: dict[str, tuple[Callable[[CheckedEndpoints], object], str, str]] = {
    "another L1": (lambda e: e.l1.update(eth_chainId="0x1"), "L1-CHAIN", "expected 11155111"),
    "an L1 that fails": (lambda e: e.instead.update(l1=answering(404, "")), "L1-UNREACHABLE", "HTTP status 404"),
    "another L2": (lambda e: e.engine.update(eth_chainId="0x1"), "ENGINE-CHAIN", "expected 999999999"),
    "the public port": (
        lambda e: without(e.engine, "engine_exchangeCapabilities"),
        "ENGINE-PUBLIC-PORT",
        "8551",
    ),
    "a virtual host": (
        lambda e: e.instead.update(engine=answering(403, "invalid host specified")),
        "ENGINE-VHOST",
        "--authrpc.vhosts",
    ),
    "another secret": (
        lambda e: e.instead.update(engine=answering(401, "signature is invalid")),
        "ENGINE-AUTH",
        "--l2.jwt-secret",
    ),
    "a stale token": (
        lambda e: e.instead.update(engine=answering(401, "stale token")),
        "ENGINE-CLOCK",
        "the secret is not the reason",
    ),
    "an engine's clock": (
        lambda e: e.instead.update(engine=answering(401, "no", "Mon, 02 Jan 2023 03:04:05 GMT")),
        "ENGINE-CLOCK",
        "behind ours",
    ),
    "an old engine": (
        lambda e: e.engine.update(engine_exchangeCapabilities=[m for m in METHODS if not m.endswith(("V4", "V5"))]),
        "ENGINE-CAPABILITIES",
        "engine_newPayloadV4",
    ),
    "a fork that the engine lacks": (
        lambda e: e.header.update(requestsHash=None, extraData="0x" + "00" * 9),
        "ENGINE-FORKS",
        "it lacks requestsHash, its extraData has 9 bytes, not 17",
    ),
    "a safe head of another fork": (
        lambda e: e.engine.update(eth_getTransactionByBlockNumberAndIndex={"input": "0x00"}),
        "ENGINE-FORKS",
        "the safe head cannot be read",
    ),
    "a beacon node of Mainnet": (
        lambda e: e.beacon.update({"eth/v1/beacon/genesis": {"genesis_time": "1606824023"}}),
        "BEACON-CHAIN",
        "its genesis time is 1606824023",
    ),
    "a beacon node of another deposit contract": (
        lambda e: e.beacon.update({"eth/v1/config/deposit_contract": {"chain_id": "1"}}),
        "BEACON-CHAIN",
        "its deposit contract is on chain",
    ),
    "a beacon node that fails": (
        lambda e: e.instead.update(beacon=answering(503, "starting")),
        "BEACON-UNREACHABLE",
        "HTTP status 503",
    ),
    "no blobs for the safe head": (
        lambda e: e.blobs_of.update({e.slot_of(e.origin_time): []}),
        "BLOB-NOT-FOUND",
        "13d21h old",
    ),
    "too few data columns": (
        lambda e: e.blobs_of.update({e.slot_of(e.origin_time): "node does not custody enough columns"}),
        "BLOB-CUSTODY",
        "does not custody enough columns",
    ),
}


@pytest.mark.sign("BLOB-CUSTODY", "ENGINE-VHOST", "ENGINE-AUTH", check=True)
@pytest.mark.condition("C7")
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_has_a_code(name: str, endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing but that is an error."""
    change, expected, words_ = WRONG[name]
    change(endpoints)
    code, shown = check(endpoints, capsys)
    assert code == 1 and codes(shown) == {expected}, shown
    assert words_ in text_of(shown, expected)


def test_warnings_do_not_fail(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    endpoints.now -= 1200
    without(endpoints.l1, "eth_getProof")
    without(endpoints.engine, "eth_getProof")
    dead = f"/ip4/{own_address()}/tcp/{free_port()}/p2p/16Uiu2HAmJhfG1LTk9eYYpXqLxNuZBXKDaQEzQHtrMF8pkkNUpmTF"
    code, shown = check(endpoints, capsys, f"--p2p.static={dead}")
    assert code == 0, shown
    expected = {"L1-HEAD", "L1-METHODS", "ENGINE-METHODS", "PEER-UNREACHABLE"}
    assert codes(shown, "warning") == expected


@pytest.mark.fault("F11")
def test_clocks_apart_are_a_warning(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    beacon = endpoints._beacon_answer

    def early(request: web.Request) -> web.Response:
        answer = beacon(request)
        answer.headers["Date"] = "Fri, 01 Jan 2038 00:00:00 GMT"
        return answer

    endpoints.instead["beacon"] = early
    code, shown = check(endpoints, capsys)
    assert code == 0 and codes(shown, "warning") == {"CLOCK"} and "ahead of ours" in text_of(shown, "CLOCK")


def test_swapped_endpoints_are_named(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoints.served() as (l1, engine, beacon):
        _, shown = run(capsys, *words(beacon, engine, l1))
    assert codes(shown) == {"ENDPOINTS-SWAPPED"}
    texts = " ".join(str(item["text"]) for item in shown)
    assert "of --l1 is a beacon node" in texts and "of --l1.beacon is an execution node" in texts


def test_one_l1_endpoint_is_enough(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoints.served() as (l1, engine, beacon):
        code, shown = run(capsys, *words(f"http://127.0.0.1:1,{l1}", engine, beacon))
    assert code == 0 and codes(shown, "warning") == {"L1-UNREACHABLE"}


def test_tls_on_one_side_alone(endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str]) -> None:
    with endpoints.served() as (l1, engine, beacon):
        secure = [url.replace("http:", "https:") for url in (l1, engine, beacon)]
        code, shown = run(capsys, *words(*secure))
    assert code == 1 and codes(shown) == {"TLS-PORT"}
    assert sum(item["code"] == "TLS-PORT" for item in shown) == 3


@contextmanager
def untrusted(folder: Path) -> Iterator[str]:
    """Yield the URL of a TLS server whose certificate nobody knows."""
    from tests.support.engine.remote_signers import TlsSetUp

    files = TlsSetUp(folder)
    context = files.server_context()
    context.verify_mode = ssl.CERT_NONE
    with socket.create_server((own_address(), 0)) as listener:
        listener.settimeout(30)

        def serve() -> None:
            while True:
                try:
                    accepted = listener.accept()[0]
                except OSError:
                    return
                try:
                    accepted.settimeout(30)
                    context.wrap_socket(accepted, server_side=True).close()
                except OSError:
                    accepted.close()

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"https://{own_address()}:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_an_untrusted_certificate(
    endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = tmp_path / "tls"
    folder.mkdir()
    with endpoints.served() as (_, engine, beacon), untrusted(folder) as l1:
        code, shown = run(capsys, *words(l1, engine, beacon))
    assert code == 1 and codes(shown) == {"TLS-CERTIFICATE"}


@pytest.mark.condition("C11")
def test_everything_wrong_comes_in_one_run(
    endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "jwt.hex").write_text("xx")
    nowhere = "http://127.0.0.1:1"
    with socket.create_server((own_address(), 0)) as taken:
        port = f"--rpc.port={taken.getsockname()[1]}"
        arguments = words(nowhere, nowhere, nowhere, port, "--safedb.path=file/safedb")
        arguments += [f"--signer.endpoint={nowhere}", "--signer.tls.enabled=false"]
        code, shown = run(capsys, *arguments, "--signer.address=0x" + "11" * 20, "--sequencer.enabled")
    assert code == 1
    unreachable = {"L1-UNREACHABLE", "ENGINE-UNREACHABLE", "BEACON-UNREACHABLE", "SIGNER-UNREACHABLE"}
    assert codes(shown) == unreachable | {"JWT-FILE", "PORT-TAKEN", "DIRECTORY"}
    reasons = {item["check"]: item["text"] for item in shown if item["level"] == "not checked"}
    assert reasons["engine 127.0.0.1:1"] == "there is no JWT secret to ask it with"
    assert {"blobs of the L1 head", "blobs of the safe head"} <= set(reasons)


def test_wrong_options_are_findings(capsys: pytest.CaptureFixture[str]) -> None:
    code, shown = run(capsys, "--network=op-sepolia", "--rpc.port=x", "--l2=http://127.0.0.1:1")
    assert code == 1 and codes(shown) == {"OPTIONS"}
    assert any("rpc.port" in str(item["text"]) for item in shown)
    assert shown[-1]["level"] == "not checked"


def test_a_secret_that_is_still_to_be_made(
    endpoints: CheckedEndpoints, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, shown = check(endpoints, capsys, "--l2.jwt-secret=none.hex")
    assert code == 0 and codes(shown, "warning") == {"JWT-FILE"}
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


def test_the_files_are_those_that_the_options_name() -> None:
    values = parse_options([*words("http://a", "http://b", "http://c", "--p2p.disable", "--safedb.path=s")], {}).values
    assert set(_files(plan_node(values))) == {"runtime.dir", "safedb.path"}
