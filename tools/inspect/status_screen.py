"""The status of a node as lines of text for one screen."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

import msgspec
from msgspec.structs import replace
from yarl import URL

from rollup_node.node.system.exit_codes import PROGRAM, SetupError
from rollup_node.stages.io.http.client import HttpClient
from rollup_node.stages.io.http.connection import is_success
from rollup_node.stages.io.http.endpoint_errors import EndpointError, endpoint_name
from rollup_node.stages.protocol.errors import DECODE_ERRORS, METHOD_NOT_FOUND
from rollup_node.stages.protocol.texts import age, duration, escaped_line
from rollup_node.stages.rpc.status.node_status import (
    BlockStatus,
    EndpointState,
    L1Status,
    NodeStatus,
    ProcessStatus,
    ProofStatus,
)

KNOWN_METHOD = "optimism_version"
"""Every node has it."""
GIVE_PORT = "give --rpc its --rpc.addr and --rpc.port"


def no_node(error: EndpointError) -> str:
    """Return the line for a URL that does not answer."""
    return f"--rpc: no node answers at {error}; {GIVE_PORT}"


def no_rollup_node(name: str) -> str:
    """Return the line for a URL that answers as another program does."""
    return f"--rpc: {name} is an L1, an engine or another program, not a rollup-node of this version; {GIVE_PORT}"


async def call_node(url: str, method: str, not_found: str) -> Any:
    """Return a node's answer. Raises SetupError, with `not_found` for a node that does not have the method."""
    # Deferred: it takes long to import.
    from rollup_node.stages.io.http.endpoint_errors import RpcFailure
    from rollup_node.stages.io.http.jsonrpc import JsonRpcClient

    client = JsonRpcClient(url)
    try:
        return await client.call(method)
    except EndpointError as error:
        raise SetupError(no_node(error)) from None
    except RpcFailure as failure:
        if failure.code != METHOD_NOT_FOUND:
            raise SetupError(f"--rpc: {client.name} does not answer {method}: {failure}") from None
        try:
            await client.call(KNOWN_METHOD)
        except (EndpointError, RpcFailure):
            raise SetupError(no_rollup_node(client.name)) from None
        raise SetupError(f"--rpc: {client.name} does not answer {method}: {not_found}") from None
    finally:
        await client.close()


UNKNOWN = "?"
LABEL = 11
HASH = 22
"""Characters of a hash that are shown."""
LEAST_COLUMNS, LEAST_ROWS = 20, 4
COLUMNS, ROWS = 80, 24
ENTRY, NARROW_ENTRY = 38, 30
"""Columns of one process, with a space. On a screen of fewer than twice the smaller number, each has a line."""


class SupernodeStatus(msgspec.Struct, frozen=True):
    """The statuses of all chains of a supernode by id, which `/status.json` of its root has [SNO7]."""

    chains: dict[str, NodeStatus]


AnyStatus = NodeStatus | SupernodeStatus
_PART = re.compile(r".+?(?: {3,}|$)")


def status_lines(status: AnyStatus, columns: int = COLUMNS, rows: int = ROWS) -> list[str]:
    """Return the screen.

    At most `rows` - 1 lines, for the cursor stands below them, each of at most `columns` characters: from 60 on, what
    is longer takes several lines. The texts of the node are shown without control characters."""
    columns, rows = max(columns, LEAST_COLUMNS), max(rows, LEAST_ROWS)
    processes: Sequence[ProcessStatus] | None
    if isinstance(status, SupernodeStatus):
        lines, troubles = [*_chains(status), ""], _troubles_of_chains(status.chains)
        processes, limit = _all_processes(status.chains.values()), None
    else:
        lines = [_title(status), _state(status), "", *_heads(status), *_sync(status), *_chain(status), ""]
        troubles, processes, limit = list(_troubles(status)), status.processes, status.progress.limited_by
    if 2 * NARROW_ENTRY <= columns < COLUMNS:
        lines = [part for line in lines if line for part in _fitted(escaped_line(line), columns)]
    lines += _processes(processes, limit, columns)
    if columns < 2 * NARROW_ENTRY:
        troubles.append(f"! {columns} columns are too few for all: {COLUMNS} show it")
    left = max(rows - 1 - len(lines), 2)
    if len(troubles) > left:
        troubles = [*troubles[: left - 1], f"! and {len(troubles) - left + 1} more"]
    return [_cut(escaped_line(line), columns) for line in [*lines, *troubles]][: rows - 1]


def _cut(line: str, columns: int) -> str:
    return line.rstrip() if len(line) <= columns else line[: columns - 3] + "..."


def _fitted(line: str, columns: int) -> Iterator[str]:
    """Yield a line in as many as it needs, which begin between its parts; what is longer is cut between words."""
    result = ""
    for part in _PART.findall(line):
        if result and len(result) + len(part.rstrip()) > columns >= LABEL + len(part.rstrip()):
            yield result.rstrip()
            result = " " * LABEL
        result += part
    yield from textwrap.wrap(result, columns, subsequent_indent=" " * LABEL, drop_whitespace=True)


def _labelled(label: str, *parts: str) -> str:
    return f"{label:{LABEL}}" + "   ".join(part for part in parts if part)


def _chains(status: SupernodeStatus) -> Iterator[str]:
    """Yield a line for each chain; in 60 columns there is room for a block each second for 300 years."""
    chains = status.chains.values()
    ready = sum(chain.ready for chain in chains)
    first = max(chains, key=lambda chain: chain.uptime_s or 0.0, default=None)
    if first is not None:
        up = "" if first.uptime_s is None else f"   up {duration(first.uptime_s)}"
        yield f"{_time(first.time)}   {PROGRAM} {first.version}   {ready} of {len(chains)} chains are ready{up}"
    yield f"{'chain':<12}{'state':<12}{'unsafe':>12}{'safe':>12}{'finalized':>12}"
    for chain_id, chain in status.chains.items():
        heads = (chain.heads.unsafe, chain.heads.safe, chain.heads.finalized)
        numbers = "".join(f"{_number(head):>12}" for head in heads)
        yield f"{chain_id[:11]:<12}{'ready' if chain.ready else chain.state.value[:11]:<12}{numbers}"


def _troubles_of_chains(chains: Mapping[str, NodeStatus]) -> list[str]:
    """Return what is wrong in all chains once, the rest with its chain."""
    by_chain = {chain_id: list(_troubles(status)) for chain_id, status in chains.items()}
    common = set.intersection(*map(set, by_chain.values())) if len(by_chain) > 1 else set()
    own = [
        f"! chain {chain_id}: {text[2:]}"
        for chain_id, troubles in by_chain.items()
        for text in troubles
        if text not in common
    ]
    return [*dict.fromkeys(text for troubles in by_chain.values() for text in troubles if text in common), *own]


def _all_processes(chains: Iterable[NodeStatus]) -> list[ProcessStatus]:
    """Return the processes of all chains, shared ones once; those of one role in several chains are its copies."""
    by_pid = {process.pid: process for chain in chains for process in chain.processes or ()}
    copies = Counter(process.name for process in by_pid.values())
    numbers: Counter[str] = Counter()
    result = []
    for process in by_pid.values():
        name = process.name
        numbers[name] += 1
        result.append(replace(process, name=f"{name}-{numbers[name]}") if copies[name] > 1 else process)
    return result


def _title(status: NodeStatus) -> str:
    chain = status.chain
    name = f"{chain.network or 'chain'} ({chain.l2_chain_id} on L1 {chain.l1_chain_id})"
    up = "" if status.uptime_s is None else f"   up {duration(status.uptime_s)}"
    return f"{_time(status.time)}   {PROGRAM} {status.version}   {name}{up}"


def _time(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S} UTC"
    except (OverflowError, OSError, ValueError):
        return UNKNOWN


def _state(status: NodeStatus) -> str:
    return f"{'ready' if status.ready else 'NOT READY'}   {status.sentence}"


def _heads(status: NodeStatus) -> Iterator[str]:
    heads = status.heads
    for name, head in (("unsafe", heads.unsafe), ("safe", heads.safe), ("finalized", heads.finalized)):
        yield _labelled(
            name, UNKNOWN if head is None else f"{head.number:>12} {age(head.age_s):>8}   {head.hash[:HASH]}"
        )


def _sync(status: NodeStatus) -> Iterator[str]:
    progress, window = status.progress, status.sequencing_window
    yield _labelled("L1", *_l1(status.l1))
    if status.l1.proof is not None:
        yield _labelled("proof", *_proof(status.l1.proof))
    speed = "" if progress.blocks_per_s is None else f"{progress.blocks_per_s:g} blocks/s"
    target = "" if progress.target_block is None else f"of ~{progress.target_block}"
    eta = "" if not progress.eta_s else f"about {duration(progress.eta_s)} left"
    limit = "" if progress.limited_by is None else f"limited by {progress.limited_by}"
    yield _labelled("safe head", *((speed, target, eta, limit) if speed or target else (UNKNOWN,)))
    used = UNKNOWN if window is None else f"{window.left_blocks} of {window.size_blocks} L1 blocks left"
    yield _labelled("window", used)


def _l1(l1: L1Status) -> Iterator[str]:
    yield f"reading {_number(l1.current)}"
    yield f"head {_number(l1.head)}" + ("" if l1.head is None else f" ({age(l1.head.age_s)})")
    yield f"finalized {_number(l1.finalized)}"
    if l1.lag_blocks:
        yield f"{l1.lag_blocks} behind" + ("" if l1.lag_s is None else f" ({duration(l1.lag_s)})")


def _proof(proof: ProofStatus) -> Iterator[str]:
    yield f"head {age(proof.age_s)} by {proof.participation:.0%}"
    yield f"finalized {age(proof.finalized_age_s)}" + (", LATE" if proof.finality_late else "")
    yield "" if proof.linked else "reading UNPROVEN blocks"


def _number(block: BlockStatus | None) -> str:
    return UNKNOWN if block is None else str(block.number)


def _chain(status: NodeStatus) -> Iterator[str]:
    coming = status.chain.next_fork
    later = "no other is scheduled" if coming is None else f"{coming.name} in {duration(coming.in_s)}"
    yield _labelled("fork", status.chain.fork, later)
    peers = UNKNOWN if status.peers is None else f"{status.peers.connected}, {status.peers.mesh} in the mesh"
    drops = "" if status.drops_1h is None else f"drops in 1h: {status.drops_1h}"
    sequencer = ""
    if status.sequencer is not None and status.sequencer.enabled:
        sequencer = "sequencer: active" if status.sequencer.active else "sequencer: stopped"
    yield _labelled("peers", peers, drops, sequencer)


def _processes(processes: Sequence[ProcessStatus] | None, limit: str | None, columns: int) -> Iterator[str]:
    """Yield the processes, in two columns where they have room.

    The copies of one role are one entry, and the one that the others wait for has a mark. CPU is the percentage of a
    core in the last seconds."""
    if not processes:
        return
    roles: dict[str, list[ProcessStatus]] = {}
    for process in processes:
        role, _, copy = process.name.partition("-")
        roles.setdefault(role if copy.isdecimal() else process.name, []).append(process)
    is_narrow = 2 * NARROW_ENTRY <= columns < 2 * ENTRY
    widths = (11, 3, 5, 5, 5) if is_narrow else (12, 6, 6, 7, 6)
    entries = [_entry(f"{role}*" if role == limit else role, copies, widths) for role, copies in roles.items()]
    title = _row(("process", "st" if is_narrow else "starts", "beat", "CPU", "MiB"), widths)
    if columns < 2 * NARROW_ENTRY:
        yield from (title, *entries)
        return
    width = columns // 2
    yield f"{title:<{width}}{title}".rstrip()
    half = (len(entries) + 1) // 2
    for index in range(half):
        second = entries[index + half] if index + half < len(entries) else ""
        yield f"{entries[index]:<{width}}{second}".rstrip()


def _entry(role: str, copies: Sequence[ProcessStatus], widths: Sequence[int]) -> str:
    names = (f"{role} x{len(copies)}", f"{role}x{len(copies)}") if len(copies) > 1 else ()
    name = next((name for name in names if len(name) <= widths[0]), role)
    beats = [copy.heartbeat_age_s for copy in copies if copy.heartbeat_age_s is not None]
    cpu = [copy.cpu_share for copy in copies if copy.cpu_share is not None]
    memory = [copy.memory_bytes for copy in copies if copy.memory_bytes is not None]
    figures = (
        str(sum(copy.incarnation for copy in copies)),
        _seconds(max(beats)) if beats else UNKNOWN,
        f"{sum(cpu):.0%}" if cpu else UNKNOWN,
        str(sum(memory) >> 20) if memory else UNKNOWN,
    )
    return _row((name, *figures), widths)


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s"


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    name, *figures = cells
    aligned = (f"{figure:>{width}}" for figure, width in zip(figures, widths[1:], strict=True))
    return f"{name[: widths[0]]:<{widths[0]}}{''.join(aligned)}"


def _troubles(status: NodeStatus) -> Iterator[str]:
    """Yield the problems with their ages, the other reasons for being unready, and endpoints that are not well."""
    known = set()
    for problem in status.problems:
        text = f"{problem.process}: {problem.text}"
        known.add(text)
        yield f"! {duration(problem.age_s)} {text}"
    yield from (f"! {reason}" for reason in status.reasons if reason not in known)
    yield from (f"! {warning.code}: {warning.text}" for warning in status.warnings)
    for endpoint in status.endpoints or ():
        if endpoint.state in (EndpointState.THROTTLED, EndpointState.FAILING):
            counts = f"{endpoint.throttled} throttled, {endpoint.errors} failed of {endpoint.requests} requests"
            reason = endpoint.verdict or endpoint.error or UNKNOWN
            yield f"! {endpoint.kind} {endpoint.name} {endpoint.state}: {reason} ({counts})"


PATH = "/status.json"
OF_OTHERS = (400, 401, 404, 405, 415)
"""What other programs answer to it, such as L1 and engines."""
ANSWER_SECONDS = 5.0
MAX_ANSWER = 1 << 20
MAX_TEXT = 200


class StatusError(SetupError):
    """The node does not answer, or not with its status."""


class StatusClient:
    """Reads the status of the node at the URL of its JSON-RPC."""

    def __init__(self, url: str) -> None:
        self.name = endpoint_name(url)
        self._url = url.rstrip("/") + PATH
        self._http = HttpClient(self._url, self.name)

    async def __aenter__(self) -> "StatusClient":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.close()

    async def fetch(self) -> AnyStatus:
        """Return the status, of a supernode that of all chains. Raises StatusError."""
        body = await self._get()
        with suppress(*DECODE_ERRORS):
            return msgspec.json.decode(body, type=NodeStatus)
        try:
            return msgspec.json.decode(body, type=SupernodeStatus)
        except DECODE_ERRORS:
            raise StatusError(no_rollup_node(self.name)) from None

    async def _get(self) -> bytes:
        try:
            answer = await self._http.get(URL(self._url), {}, ANSWER_SECONDS, MAX_ANSWER)
        except EndpointError as error:
            raise StatusError(no_node(error)) from None
        if answer.status in OF_OTHERS:
            raise StatusError(no_rollup_node(self.name))
        if not is_success(answer.status):
            text = escaped_line(answer.body[: 4 * MAX_TEXT].decode(errors="replace").strip())[:MAX_TEXT]
            raise self._error(f"HTTP status {answer.status} for {PATH}: {text}")
        return answer.body

    def _error(self, text: str) -> StatusError:
        return StatusError(f"--rpc: {self.name}: {text}")


FIRST_NOTICE = 15.0
NOTICE_INTERVAL = 60.0


class Patience:
    """The time since the last progress. `timeout` in seconds, None for none; times are of a monotonic clock."""

    def __init__(self, timeout: float | None, now: float) -> None:
        self._timeout = timeout
        self._since = now
        self._next_notice = now + FIRST_NOTICE

    def progress(self, now: float) -> None:
        """Begin again."""
        self._since, self._next_notice = now, now + FIRST_NOTICE

    def is_over(self, now: float) -> bool:
        """Whether the timeout has passed."""
        return self._timeout is not None and now - self._since > self._timeout

    def notice(self, now: float, reason: str) -> str:
        """Return the line for the operator when one is due, else nothing."""
        if now < self._next_notice:
            return ""
        self._next_notice = now + NOTICE_INTERVAL
        return f"{PROGRAM}: waiting for {duration(now - self._since)}: {reason}\n"
