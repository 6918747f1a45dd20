"""The status of a node on one screen."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from rollup_node.stages.rpc.status.node_status import (
    BlockStatus,
    ChainStatus,
    DerivationProgress,
    EndpointState,
    EndpointStatus,
    ForkTime,
    HeadsStatus,
    L1Status,
    NodeStatus,
    Peers,
    ProblemStatus,
    ProcessStatus,
    ProofStatus,
    SequencerStatus,
    SequencingWindow,
    State,
)
from rollup_node.tools.inspect import status_screen
from rollup_node.tools.inspect.status_screen import (
    MAX_ANSWER,
    StatusClient,
    StatusError,
    SupernodeStatus,
    status_lines,
)
from tests.support.rpc.node_statuses import UNKNOWN
from tests.support.rpc.supernode import running_supernode
from tests.support.servers.loopback import free_port, own_address
from tests.support.servers.raw_http import serving


def block(number: int, age: float) -> BlockStatus:
    return BlockStatus(number, "0x" + 32 * "ab", 1, age)


def process(name: str, restarts: int = 0) -> ProcessStatus:
    return ProcessStatus(name, 4242, restarts + 1, restarts, 60.0, True, 0.24, 0.5, 192.3, 126 << 20, 0.034)


NAMES = ("supervisor", "sweeper", "l1", "blobs", "derivation", *(f"compute-{copy}" for copy in range(7)), "engine")
SYNCING = NodeStatus(
    version="v1.2.3",
    time=1795434065.5,
    uptime_s=7980.0,
    chain=ChainStatus("op-mainnet", 1, 10, 2, "jovian", ForkTime("karst", 1796471000, 1036800)),
    state=State.SYNCING,
    state_age_s=300.0,
    sentence="syncing: 46m12s behind, about 7m35s left, limited by blobs",
    ready=False,
    reasons=["blobs: away", "derivation: 231 L1 blocks behind, at 54 of 285 (46m12s); the limit is 12"],
    heads=HeadsStatus(block(131622005, 0.4), block(131620000, 2772.0), None),
    l1=L1Status(block(54, 2780.0), block(285, 8.0), None, block(221, 800.0), 231, 2772),
    progress=DerivationProgress(131623386, 34.5, 455, "blobs", {"l1": 3}),
    sequencing_window=SequencingWindow(3600, 174, 3426),
    sequencer=SequencerStatus(True, False),
    peers=Peers(22, 8),
    drops_1h=3,
    problems=[ProblemStatus("blobs", None, "away", 1795433909, 156.0)],
    processes=[process(name) for name in NAMES] + [process("p2p", 2), process("rpc")],
)


@pytest.mark.condition("C4")
def test_a_syncing_node() -> None:
    assert (
        "\n".join(status_lines(SYNCING))
        == """\
11:41:05 UTC   rollup-node v1.2.3   op-mainnet (10 on L1 1)   up 2h13m
NOT READY   syncing: 46m12s behind, about 7m35s left, limited by blobs

unsafe        131622005    0.4 s   0xabababababababababab
safe          131620000   46m12s   0xabababababababababab
finalized  ?
L1         reading 54   head 285 (8.0 s)   finalized 221   231 behind (46m12s)
safe head  34.5 blocks/s   of ~131623386   about 7m35s left   limited by blobs
window     3426 of 3600 L1 blocks left
fork       jovian   karst in 12d0h
peers      22, 8 in the mesh   drops in 1h: 3   sequencer: stopped

process     starts  beat    CPU   MiB   process     starts  beat    CPU   MiB
supervisor       1  0.2s     3%   126   compute x7       7  0.2s    24%   882
sweeper          1  0.2s     3%   126   engine           1  0.2s     3%   126
l1               1  0.2s     3%   126   p2p              3  0.2s     3%   126
blobs*           1  0.2s     3%   126   rpc              1  0.2s     3%   126
derivation       1  0.2s     3%   126
! 2m36s blobs: away
! derivation: 231 L1 blocks behind, at 54 of 285 (46m12s); the limit is 12"""
    )


def test_the_proof_of_l1() -> None:
    proof = ProofStatus(1200, 14.0, 1120, 800.0, 3, 0.986, linked=True)
    for linked, more in ((True, ""), (False, "   reading UNPROVEN blocks")):
        l1 = replace(SYNCING.l1, proof=replace(proof, linked=linked))
        lines = status_lines(replace(SYNCING, l1=l1))
        assert lines[7] == f"proof      head 14s by 99%   finalized 13m20s{more}"
        late = replace(SYNCING.l1, proof=replace(proof, finality_late=True))
        assert "finalized 13m20s, LATE" in status_lines(replace(SYNCING, l1=late))[7]


def test_few_columns_have_one_table_and_a_hint() -> None:
    lines = status_lines(SYNCING, 59, 40)
    table = lines.index("process     starts  beat    CPU   MiB")
    assert lines[table + 1] == "supervisor       1  0.2s     3%   126"
    assert lines[table + 6] == "compute x7       7  0.2s    24%   882"
    assert lines[-1] == "! 59 columns are too few for all: 80 show it"


def test_what_is_not_known() -> None:
    assert (
        "\n".join(status_lines(UNKNOWN))
        == """\
00:00:00 UTC   rollup-node v1   chain (10 on L1 1)
NOT READY   starting

unsafe     ?
safe       ?
finalized  ?
L1         reading ?   head ?   finalized ?
safe head  ?
window     ?
fork       bedrock   no other is scheduled
peers      ?
"""
    )


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60), (60, 24), (75, 30), (30, 10), (1, 1)])
def test_any_status_fits_the_screen(columns: int, rows: int) -> None:
    """Whatever texts and figures the node sends; control characters do nothing."""
    huge = [ProblemStatus(f"p{index}", None, "x\x1b[2J\r\n" * 300, 0, 1e300) for index in range(50)]
    hostile = msgspec.structs.replace(
        SYNCING,
        version="v" * 500,
        time=1e300,
        sentence="\x1b]0;title\x07" * 100,
        heads=HeadsStatus(block(1 << 63, 1e300), None, None),
        problems=huge,
        reasons=["\n" * 500],
        processes=[process(f"{'role' * 9}{index}", 1 << 62) for index in range(40)],
    )
    for status in (hostile, SYNCING, UNKNOWN, msgspec.structs.replace(SYNCING, processes=[], problems=huge)):
        lines = status_lines(status, columns, rows)
        assert len(lines) <= max(rows, 4) - 1
        assert all(len(line) <= max(columns, 20) and line.isprintable() for line in lines)


def test_endpoints_that_are_not_well() -> None:
    def endpoint(state: EndpointState, error: str | None, verdict: str | None = None) -> EndpointStatus:
        return EndpointStatus("l1", "l1", f"{state}:1", state, True, 84405, 212, 209, 18.4, error, 3.0, verdict)

    endpoints = [
        endpoint(EndpointState.OK, "gone"),
        endpoint(EndpointState.THROTTLED, "HTTP status 429"),
        endpoint(EndpointState.UNUSED, None),
        endpoint(EndpointState.FAILING, None),
        endpoint(EndpointState.FAILING, "HTTP status 500", "follows another fork"),
    ]
    lines = status_lines(msgspec.structs.replace(SYNCING, endpoints=endpoints, problems=[], reasons=[]), 100)
    assert [line for line in lines if line.startswith("!")] == [
        "! l1 throttled:1 throttled: HTTP status 429 (209 throttled, 212 failed of 84405 requests)",
        "! l1 failing:1 failing: ? (209 throttled, 212 failed of 84405 requests)",
        "! l1 failing:1 failing: follows another fork (209 throttled, 212 failed of 84405 requests)",
    ]


def test_problems_that_do_not_fit_are_counted() -> None:
    many = [ProblemStatus("blobs", None, f"away {index}", 0, 3.0) for index in range(9)]
    lines = status_lines(msgspec.structs.replace(SYNCING, problems=many, reasons=[]))
    assert lines[-2:] == ["! 3s blobs: away 3", "! and 5 more"]
    assert len(lines) == 23


@asynccontextmanager
async def answering(answer: bytes, keeps_open: bool = False) -> AsyncIterator[str]:
    """Yield the URL of a server that sends these bytes to anybody."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if keeps_open:
            await reader.read()

    async with serving(serve) as port:
        yield f"http://127.0.0.1:{port}"


def http(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    head = "".join(f"{line}\r\n" for line in (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers))
    return head.encode() + b"\r\n" + body


async def error_of(url: str) -> str:
    async with StatusClient(url) as client:
        with pytest.raises(StatusError) as raised:
            await client.fetch()
    text = str(raised.value)
    assert text.startswith("--rpc: ") and url.removeprefix("http://") in text and "\n" not in text
    return text.partition(": ")[2].replace(url.removeprefix("http://"), "URL")


ELSE = "URL is an L1, an engine or another program, not a rollup-node of this version; give --rpc its --rpc.addr and"
AT = "no node answers at URL: "
LONG = f"{AT}the answer is longer than {MAX_ANSWER} bytes"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        *((lambda body=body: http(body), ELSE) for body in (b"{}", b"\xff", b"[" * 100_000, b"9" * 5000)),
        (
            lambda: http(b"x", "404 Not Found"),
            ELSE,
        ),
        (lambda: http(b"no\nentry\x1b", "403 Forbidden"), "URL: HTTP status 403 for /status.json: no\\nentry\\x1b"),
        (lambda: http(b"", "302 Found"), "URL: HTTP status 302 for /status.json: "),
        (lambda: http(bytes(MAX_ANSWER + 1)), LONG),
        (lambda: http(gzip.compress(bytes(64 << 20)), "200 OK", "Content-Encoding: gzip"), LONG),
        (lambda: b"SSH-2.0-OpenSSH\r\n\r\n", f"{AT}the connection failed ("),
        (lambda: b"", f"{AT}the connection failed ("),
    ],
)
async def test_something_else_is_one_line(answer: Callable[[], bytes], error: str) -> None:
    async with answering(answer()) as url:
        assert (await error_of(url)).startswith(error)


async def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one who never ends the answer."""
    monkeypatch.setattr(status_screen, "ANSWER_SECONDS", 2.0)
    assert (await error_of(f"http://{own_address()}:{free_port()}")).startswith(f"{AT}cannot connect (")
    for answer in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"):
        async with answering(answer, keeps_open=True) as url:
            assert await error_of(url) == f"{AT}no answer within 2 s; give --rpc its --rpc.addr and --rpc.port"


def of_chain(chain_id: int, **changes: object) -> NodeStatus:
    """Return the status of one of three chains: its processes, and those that all share."""
    shared = [replace(process(name), pid=number) for number, name in enumerate(("supervisor", "l1", "blobs", "rpc"))]
    shared += [replace(process(f"compute-{copy}"), pid=10 + copy) for copy in range(2)]
    own = [replace(process(name), pid=chain_id + n) for n, name in enumerate(("derivation", "engine", "p2p"))]
    heads = HeadsStatus(block(200_000_000, 1.0), block(199_999_990, 20.0), block(199_999_000, 900.0))
    return replace(SYNCING, heads=heads, processes=[*shared, *own], **changes)


SUPERNODE = SupernodeStatus(
    {
        "11155420": of_chain(1000, ready=True, reasons=[], problems=[]),
        "1301": of_chain(2000, ready=False, reasons=["l1: away", "engine: away"], problems=[]),
        "763373": of_chain(3000, state=State.SYNCING, reasons=["l1: away"], problems=[]),
    }
)


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (60, 24)])
def test_three_chains_of_a_supernode_fit_the_screen(columns: int, rows: int) -> None:
    """[SNO7] With all processes; what is wrong in one chain stands with it."""
    lines = status_lines(SUPERNODE, columns, rows)
    text = "\n".join(lines)
    assert len(lines) < rows and all(len(line) <= columns for line in lines) and "..." not in text
    assert "1 of 3 chains are ready" in text
    assert f"{'11155420':<12}{'ready':<12}{200000000:>12}{199999990:>12}{199999000:>12}" in lines
    assert f"{'1301':<12}{'syncing':<12}{200000000:>12}{199999990:>12}{199999000:>12}" in lines
    assert all(role in text for role in ("supervisor", "l1 ", "blobs", "rpc", "compute x2", "derivation", "engine x3"))
    assert "p2p x3" in text and text.count("supervisor") == 1
    assert "! chain 1301: engine: away" in lines and "! chain 763373: l1: away" in lines


def test_what_is_wrong_in_all_chains_stands_once() -> None:
    alike = {chain: replace(status, reasons=["l1: away"]) for chain, status in SUPERNODE.chains.items()}
    assert [line for line in status_lines(SupernodeStatus(alike)) if line.startswith("!")] == ["! l1: away"]
    assert status_lines(SupernodeStatus({})) and status_lines(SUPERNODE, 20, 4)


async def test_the_status_of_a_supernode(tmp_path: Path) -> None:
    """[SNO7] At its root all chains, below a chain's path that chain."""
    async with asyncio.timeout(30), running_supernode(tmp_path) as node:
        async with StatusClient(node.url) as client:
            status = await client.fetch()
        async with StatusClient(f"{node.url}/901/") as client:
            one = await client.fetch()
    assert isinstance(status, SupernodeStatus) and list(status.chains) == ["901", "902"]
    assert isinstance(one, NodeStatus) and one.chain.l2_chain_id == 901
