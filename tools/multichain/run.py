"""`rollup-node devnet`: one chain, or several with `--chains`, from their start to the comparison of all roots."""

import asyncio
import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.devnet import cli
from rollup_node.tools.devnet.fork_server import fork_server
from rollup_node.tools.devnet.ports import reserved_numbers
from rollup_node.tools.devnet.run import LOCK, STALL_SECONDS, STOP_SIGNALS, data_directory
from rollup_node.tools.devnet.settings import SEQUENCER
from rollup_node.tools.devnet.status import (
    ATTEMPTS,
    RETRY_SECONDS,
    NoProgress,
    compare_output_roots,
    compare_roots,
    output_at_block,
    persistent,
)
from rollup_node.tools.devnet.traffic import Traffic
from rollup_node.tools.inspect.status_screen import AnyStatus, StatusClient, StatusError, status_lines
from rollup_node.tools.multichain.messages import Messages
from rollup_node.tools.multichain.programs import OP_SUPERNODE, ChainsPrograms, port_count
from rollup_node.tools.multichain.settings import ChainsSettings, parse

if TYPE_CHECKING:
    from rollup_node.tools.multichain.lying_source import LyingSource

TICK_SECONDS, TRAFFIC_SECONDS, MESSAGE_SECONDS = 0.5, 1.0, 0.5
COMPARED_SECONDS = 60
"""How many of the last super roots are compared."""
CHAIN_ROLES = ("derivation", "engine", "p2p")
_OF_OP_SUPERNODE = re.compile(r' msg="added block to deny list" .*height=(\d+) payloadHash=(0x\w{10})')
_INVALIDATION = re.compile(r" code=INTEROP-INVALID chain=(\d+) block=(\d+:0x\w+) .*\[(\w+)\]")
KILLED = (*CHAIN_ROLES, "supervisor", "l1", "blobs", "compute", "interop", "rpc")


LINE_SECONDS, SCREEN_SECONDS = 4.0, 1.0


class ChainsView:
    """Shows messages and a line for the state of the network; `is_silent`, for --json, nothing.

    `wants_status` is whether the state of a supernode is part of it."""

    def __init__(self, is_silent: bool) -> None:
        self._console = Console(quiet=is_silent, highlight=False, markup=False, soft_wrap=True)
        self.wants_status = self._console.is_terminal and not is_silent
        self.seconds = SCREEN_SECONDS if self.wants_status else LINE_SECONDS
        self._live = Live(console=self._console, auto_refresh=False)
        if self.wants_status:
            self._live.start()

    def message(self, text: str) -> None:
        """Show a line of text."""
        self._console.print(text)

    def show(self, line: str, status: AnyStatus | None) -> None:
        """Show the state of the network, with that of a supernode if it is known."""
        if not self.wants_status:
            self.message(line)
            return
        columns, rows = self._console.size
        lines = [line[:columns], *([] if status is None else status_lines(status, columns, rows - 1))]
        self._live.update(Text("\n".join(lines), no_wrap=True), refresh=True)

    def close(self) -> None:
        """End the display."""
        self._live.stop()


@dataclass
class ChainsResult:
    """The result of a run; `safe` are the lowest safe heads by chain, `differences` what is wrong, in words.

    `messages` are counted by what was wrong with them, `invalidated` are the blocks that the first supernode has denied
    by chain, and `rules` those blocks by the rule that makes them invalid. `lies` are the answers with a lie."""

    safe: dict[str, int]
    seconds: float
    messages: dict[str, int] = field(default_factory=dict)
    invalidated: dict[str, int] = field(default_factory=dict)
    rules: dict[str, int] = field(default_factory=dict)
    super_roots: int = 0
    kills: int = 0
    reorgs: int = 0
    lies: int = 0
    differences: list[str] = field(default_factory=list)


def clear(root: Path) -> None:
    """Remove what an earlier run has left in its data directory."""
    for path in root.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != LOCK:
            path.unlink()


class ChainsRun:
    """One run of a network that has not been started."""

    def __init__(self, network: ChainsPrograms, settings: ChainsSettings) -> None:
        self._network, self._settings = network, settings
        self._random = random.Random(settings.seed)
        self.result = ChainsResult({}, 0.0)
        self._messages: Messages | None = None
        self._view = ChainsView(settings.json)
        self._stop = asyncio.Event()
        self._clients: list[JsonRpcClient] = []
        self._liar: LyingSource | None = None

    def _client(self, url: str) -> JsonRpcClient:
        client = JsonRpcClient(url, timeout=10.0)
        self._clients.append(client)
        return client

    async def run(self, started: float) -> ChainsResult:
        """Run until the end and compare. Raises ProgramExited, StartFailed or NoProgress."""
        loop, network = asyncio.get_running_loop(), self._network
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._stop.set)
        tasks: list[asyncio.Task[None]] = []
        try:
            network.children.on_restart = self._note_restart
            await self._start_liar()
            await network.start()
            self._say(f"L1 {network.l1}  " + "  ".join(f"{name} {url}" for name, url in network.supernodes.items()))
            self._say("status pages  " + "  ".join(f"{name} {page}" for name, page in network.status_pages.items()))
            engines = {local.id: self._client(local.engine(SEQUENCER)) for local in network.chains}
            tasks = [asyncio.create_task(task) for task in self._background(engines)]
            await self._follow(tasks)
            for task in tasks:
                task.cancel()
            await self._compare()
            self.result.messages = self._sent()
            await self.check_messages()
            self._check_lies()
        finally:
            if self._liar is not None:
                await self._liar.close()
            for task in tasks:
                task.cancel()
            for client in self._clients:
                await client.close()
            self._view.close()
            await asyncio.to_thread(network.children.stop)
        self.result.seconds = round(time.monotonic() - started, 1)
        return self.result

    def _background(self, engines: Mapping[int, JsonRpcClient]) -> list[Any]:
        settings, l1 = self._settings, self._client(self._network.l1)
        traffic = [Traffic(l1, engines[local.id], self._say, local.chain) for local in self._network.chains]
        tasks = [self._repeat(TRAFFIC_SECONDS, *(of_chain.send_round for of_chain in traffic))]
        if self._network.activation and len(engines) > 1:
            ways = settings.expiry, settings.l2_block_time, settings.wrong
            self._messages = messages = Messages(engines, settings.invalid_every, settings.seed, self._say, *ways)
            begin = self._network.activation + settings.l2_block_time
            tasks.append(self._repeat(MESSAGE_SECONDS, messages.send_round, delay=max(0.0, begin - time.time())))
        if settings.kill_every:
            tasks.append(self._repeat(settings.kill_every, self._kill))
        if settings.reorg_every:
            tasks.append(self._repeat(settings.reorg_every, lambda: self._reorg(l1)))
        if self._liar is not None:
            tasks.append(self._repeat(settings.lie_every, self._turn))
        return tasks

    async def _start_liar(self) -> None:
        if not self._settings.lie_every:
            return
        # Imported here alone: it brings aiohttp with it.
        from rollup_node.tools.multichain.lying_source import LyingSource

        source = f"{next(iter(self._network.supernodes.values()))}/{self._network.chains[0].id}/"
        self._liar = LyingSource(source, self._settings.l2_block_time)
        await self._liar.start()
        self._network.lying_source = self._liar.url

    async def _turn(self) -> None:
        assert self._liar is not None
        self._liar.turn()
        self._say(f"the source of the first sequencer tells {self._liar.lie or 'the truth'}")

    def _check_lies(self) -> None:
        if self._liar is not None:
            self.result.lies = self._liar.lies
            if not self._liar.lies:
                self.result.differences.append("the first sequencer has heard no lie")

    async def _repeat(self, seconds: float, *actions: Callable[[], Any], delay: float = 0.0) -> None:
        await asyncio.sleep(delay)
        while True:
            await asyncio.sleep(seconds)
            for action in actions:
                await action()

    async def _kill(self) -> None:
        """Kill a process of a supernode; its supervisor starts it again, or the network its supervisor."""
        name = self._random.choice([name for name in self._network.supernodes if "op-" not in name])
        entries = json.loads(self._network.processes(name).read_text())
        entry = self._random.choice([entry for entry in entries if entry["role"] in KILLED])
        with contextlib.suppress(ProcessLookupError):
            os.kill(entry["pid"], signal.SIGKILL)
            self.result.kills += 1
            self._say(f"killed {entry['role']} {entry.get('chain', '')} of {name}")

    def _note_restart(self, text: str) -> None:
        self._say(text)
        if "SIGKILL" not in text:
            self.result.differences.append(text)

    async def _reorg(self, l1: JsonRpcClient) -> None:
        with contextlib.suppress(EndpointError, RpcFailure):
            await l1.call("dev_reorg", self._settings.reorg_depth)
            self.result.reorgs += 1
            self._say(f"reorganized {self._settings.reorg_depth} blocks of L1")

    async def _follow(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Poll until the end of the run. Raises NoProgress where the lowest safe head stalls."""
        settings, began = self._settings, time.monotonic()
        clients = {name: self._client(url) for name, url in self._network.supernodes.items()}
        lowest, changed, shown = -1, began, 0.0
        while not self._stop.is_set():
            self._network.children.check()
            for task in tasks:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
            status = {name: await safe_heads(client) for name, client in clients.items()}
            now = time.monotonic()
            if None not in status.values():
                self.result.safe = {
                    chain: min(heads[chain] for heads in status.values() if heads) for chain in _chains(status)
                }
                safe = min(self.result.safe.values())
                if safe != lowest:
                    lowest, changed = safe, now
                if settings.blocks is not None and safe >= settings.blocks:
                    return
                if now >= shown + self._view.seconds:
                    shown = now
                    line = f"{now - began:5.0f} s  safe {self.result.safe}  messages {self._sent()}"
                    self._view.show(line, await self._first_status())
            if settings.duration is not None and now - began >= settings.duration and lowest >= 0:
                return
            if now - changed > STALL_SECONDS:
                raise NoProgress(f"no new safe block for {STALL_SECONDS:.0f} s ({self.result.safe}); see the logs")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_SECONDS):
                    await self._stop.wait()

    async def _compare(self) -> None:
        """Compare the outputs of each chain on all supernodes and its sequencer, and the last super roots."""
        differences = self.result.differences
        if not self.result.safe:
            raise NoProgress("it was stopped before all supernodes told their safe heads")
        for local in self._network.chains:
            nodes = {name: self._client(f"{url}/{local.id}/") for name, url in self._network.supernodes.items()}
            nodes[SEQUENCER] = self._client(local.sequencer)
            result = await compare_output_roots(nodes, self.result.safe[str(local.id)])
            for _ in range(ATTEMPTS if self._messages else 0):
                # A sequencer takes some seconds to move to the replacement of a block.
                if result.equal:
                    break
                await asyncio.sleep(RETRY_SECONDS)
                result = await compare_output_roots(nodes, self.result.safe[str(local.id)])
            if not result.equal:
                differences.append(
                    f"chain {local.id}: the output roots differ first at block {result.first_difference}"
                )
        clients = {name: self._client(url) for name, url in self._network.supernodes.items()}
        start = self._network.genesis_time
        last = start + self._settings.l2_block_time * min(self.result.safe.values())
        result = await compare_roots(clients, range(max(last - COMPARED_SECONDS, start), last + 1), _super_root)
        self.result.super_roots = result.blocks
        if not result.equal:
            differences.append(f"the super roots differ first at {result.first_difference}")

    def _sent(self) -> dict[str, int]:
        """Return the messages so far by what is wrong with them."""
        return dict(Counter(sent.wrong or "valid" for sent in self._messages.sent)) if self._messages else {}

    async def check_messages(self) -> None:
        """Tell which blocks were denied, and find invalid messages that were not [IV2]."""
        sent = [] if self._messages is None else [item for item in self._messages.sent if item.wrong]
        logs = {
            name: (self._network.root / f"{name}.log").read_text(errors="replace") for name in self._network.supernodes
        }
        denied = {(chain, block): rule for chain, block, rule in _INVALIDATION.findall(next(iter(logs.values())))}
        if OP_SUPERNODE in logs and not self.result.reorgs:
            self._compare_denials({block for _, block in denied}, set(_OF_OP_SUPERNODE.findall(logs[OP_SUPERNODE])))
        self.result.invalidated = dict(Counter(chain for chain, _ in denied))
        self.result.rules = dict(Counter(denied.values()))
        safe = [item for item in sent if item.number <= self.result.safe[str(item.chain_id)]]
        if safe and not denied:
            self.result.differences.append(f"{len(safe)} invalid messages, and no block was denied")
        for item in safe:
            for name, url in self._network.supernodes.items():
                output = await persistent(output_at_block, self._client(f"{url}/{item.chain_id}/"), item.number)
                if output["blockRef"]["hash"] == item.block_hash:
                    block = f"block {item.number} of chain {item.chain_id}"
                    self.result.differences.append(f"{name} has {block} with an invalid message: {item.wrong}")

    def _compare_denials(self, ours: set[str], theirs: set[tuple[str, str]]) -> None:
        """Find blocks that one kind of supernode denied and the other did not, up to what all have verified."""
        last = min(self.result.safe.values())
        differing = ours ^ {f"{number}:{block}" for number, block in theirs}
        if wrong := sorted(block for block in differing if int(block.partition(":")[0]) <= last):
            self.result.differences.append(f"op-supernode and the others denied different blocks: {wrong}")

    async def _first_status(self) -> AnyStatus | None:
        """Return what the first supernode says of itself, where that is shown."""
        with contextlib.suppress(StatusError):
            if self._view.wants_status:
                async with StatusClient(next(iter(self._network.supernodes.values()))) as client:
                    return await client.fetch()
        return None

    def _say(self, text: str) -> None:
        self._view.message(text)


def _chains(status: Mapping[str, dict[str, int] | None]) -> list[str]:
    return list(next(iter(status.values())) or ())


async def safe_heads(client: JsonRpcClient) -> dict[str, int] | None:
    """Return the safe heads by chain of a supernode, None if it does not tell them all.

    op-supernode tells zeros while it takes a block back."""
    try:
        result = await client.call("supernode_syncStatus")
    except (EndpointError, RpcFailure):
        return None
    heads = {chain: status["safe_l2"] for chain, status in result["chains"].items()}
    if not all(int(head["hash"], 16) for head in heads.values()):
        return None
    return {chain: head["number"] for chain, head in heads.items()}


async def _super_root(client: JsonRpcClient, timestamp: int) -> str:
    result = await client.call("superroot_atTimestamp", hex(timestamp))
    if "data" not in result:
        raise NoProgress(f"no super root of {timestamp} is verified; see the logs")
    return str(result["data"]["super_root"])


def main(argv: Sequence[str]) -> int:
    """Run a local network; the exit code is 0 only when all roots are equal."""
    started = time.monotonic()
    if all(word.partition("=")[0] != "--chains" for word in argv):
        return cli.main(argv)
    return cli.exit_code(lambda: _run(argv, started))


def _run(argv: Sequence[str], started: float) -> int:
    settings = parse(argv)
    cli.check_packages()
    with (
        data_directory(settings.data_dir) as root,
        fork_server() as forks,
        reserved_numbers(settings.base_port, port_count(settings)) as numbers,
    ):
        clear(root)
        result = asyncio.run(ChainsRun(ChainsPrograms(settings, root, numbers, forks), settings).run(started))
    if settings.json:
        print(json.dumps(dataclasses.asdict(result)))
    else:
        _print(result)
    return 1 if result.differences else 0


def _print(result: ChainsResult) -> None:
    heads = ", ".join(f"{chain} safe {safe}" for chain, safe in result.safe.items())
    print(f"{heads}; messages {result.messages}, invalidated {result.invalidated} by {result.rules}")
    done = f"{result.kills} kills, {result.reorgs} L1 reorgs, {result.lies} lies"
    print(f"{done}, {result.super_roots} super roots, {result.seconds} s in all")
    print("\n".join(result.differences) or "output roots and super roots are equal everywhere")
