"""Scenarios of faults on a running local network, whose nodes' endpoints are behind fault proxies."""

import asyncio
import random
import re
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rollup_node.node.system.procfs import read_proportional_memory, read_stat
from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log.lasting_conditions import EVERY_SECONDS
from rollup_node.tools.devnet.faults.events import EventCauses, NoEvent
from rollup_node.tools.devnet.network import NetworkPrograms
from rollup_node.tools.devnet.settings import SEQUENCER, VERIFIER
from rollup_node.tools.faults.scenario import SEQUENCER_ROLES, FaultPlan, Need, Role, Scenario
from rollup_node.tools.faults.verdict import Observation, Verdict, evaluate

if TYPE_CHECKING:
    from rollup_node.tools.faults.proxy import FaultProxy

POLL_SECONDS = 0.25
START_SECONDS = 60.0
CALL_SECONDS = 5.0
MEET_SECONDS = 20.0
"""A scenario whose faults have met no request goes on for at most so much longer: blobs are fetched seldom."""
MAX_TEXT = 4 << 20
"""Bytes of log that are read of one scenario."""

_FLAGS = {
    Role.L1: "l1",
    Role.BEACON: "l1.beacon",
    Role.ENGINE: "l2",
    Role.DA: "altda.da-server",
    Role.SIGNER: "signer.endpoint",
    Role.CONDUCTOR: "conductor.rpc",
}
"""The option of the node for each endpoint."""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class FaultSession:
    """Runs the scenarios one after another until all are done, or until `seconds` have passed.

    `done` is set at the end, `verdicts` are those so far, each of which `on_verdict` takes too."""

    def __init__(
        self,
        network: NetworkPrograms,
        scenarios: Sequence[Scenario],
        seed: int,
        say: Callable[[str], None],
        seconds: float | None = None,
        on_verdict: Callable[[Verdict], None] | None = None,
    ) -> None:
        self._network, self._scenarios, self._seed, self._say = network, tuple(scenarios), seed, say
        self._seconds, self._on_verdict = seconds, on_verdict
        self._proxies: dict[Role, FaultProxy] = {}
        self._task: asyncio.Task[None] | None = None
        self._clients: dict[str, JsonRpcClient] = {}
        self._recent: dict[str, list[tuple[float, list[str]]]] = {}
        self.verdicts: list[Verdict] = []
        self.done = asyncio.Event()

    async def __aenter__(self) -> Self:
        # Imported here alone: it brings aiohttp with it.
        from rollup_node.tools.faults.proxy import FaultProxy

        for role, upstream in self._upstreams().items():
            forged = {Role.L1: self._network.forged_l1, Role.BEACON: self._network.forged_beacon}.get(role)
            proxy = self._proxies[role] = FaultProxy(role, upstream, forged)
            await proxy.start()
            node = SEQUENCER if role in SEQUENCER_ROLES else VERIFIER
            path = f"/{SEQUENCER}" if role is Role.CONDUCTOR else ""
            self._network.proxies.setdefault(node, {})[_FLAGS[role]] = proxy.url + path
        return self

    def _upstreams(self) -> dict[Role, str]:
        """Return the endpoints of the network; each node has a path of its own at the conductor."""
        network = self._network
        result = {
            Role.L1: network.l1,
            Role.BEACON: network.beacon,
            Role.ENGINE: network.engines[VERIFIER][1],
            Role.DA: network.da_server,
            Role.SIGNER: network.signer,
            Role.CONDUCTOR: network.conductor,
        }
        return {role: url for role, url in result.items() if url is not None}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for client in self._clients.values():
            await client.close()
        for proxy in self._proxies.values():
            await proxy.stop()

    def begin(self) -> None:
        """Start the scenarios; the network answers."""
        self._task = asyncio.create_task(self._run())

    def check(self) -> None:
        """Raise what ended the scenarios."""
        if self._task is not None and self._task.done():
            self._task.result()

    async def _run(self) -> None:
        started = time.monotonic()
        await self._until(lambda value: value[VERIFIER] > 0, START_SECONDS)
        for scenario in self._scenarios:
            if self._seconds is not None and time.monotonic() > started + self._seconds:
                break
            if Need.GLOAS in scenario.needs:
                await self._until_gloas()
            self._say(f"fault: {scenario.name}")
            verdict = evaluate(scenario, await self._observe(scenario))
            self.verdicts.append(verdict)
            if self._on_verdict is not None:
                self._on_verdict(verdict)
            for problem in verdict.problems:
                self._say(f"fault: {scenario.name}: {problem}")
        self.done.set()

    async def _observe(self, scenario: Scenario) -> Observation:
        seen, chance = Observation(), random.Random(f"{self._seed}:{scenario.name}")
        node = SEQUENCER if scenario.is_of_sequencer else VERIFIER
        log = self._network.files.log(node)
        pids, offset, began = await self._pids(node), log.stat().st_size, time.monotonic()
        cpu = _cpu_seconds(pids)
        plans = {role: FaultPlan(scenario.faults, chance) for role in self._proxies}
        for role, proxy in self._proxies.items():
            await proxy.set_plan(plans[role])
        causes = EventCauses(self._network, node, self._call)
        events = asyncio.ensure_future(causes.cause_all(scenario.events))
        highest = 0
        try:
            end = began + scenario.seconds
            while not events.done() or time.monotonic() < end + self._longer(scenario, plans.values()):
                await self._note_reasons(seen, node)
                if scenario.checkpoint:
                    await self._note_forged_heads(seen, node)
                if Need.FINALITY in scenario.needs and not events.done():
                    highest = max(highest, *(await self._safe_heads()).values())
                    end = time.monotonic() + scenario.seconds
                await asyncio.sleep(POLL_SECONDS)
            await events
        except NoEvent as error:
            seen.problems.append(str(error))
        finally:
            for proxy in self._proxies.values():
                await proxy.set_plan(None)
        seen.applied = _applied(plans.values())
        ended, target = time.monotonic(), (await self._safe_heads())[SEQUENCER] + scenario.is_of_sequencer
        is_reorged = any(event.is_reorg for event in scenario.events)
        recovered = await self._until(
            lambda value: (
                value[VERIFIER] > highest and value[VERIFIER] >= (value[SEQUENCER] - 1 if is_reorged else target)
            ),
            scenario.recovers,
            on_l1=is_reorged,
        )
        seen.recovered_after = None if recovered is None else time.monotonic() - ended
        if recovered is not None:
            seen.difference = await self._difference(min(recovered.values()))
        await self._note_reasons(seen, node)
        after = await self._pids(node)
        seen.ended = tuple(role for role, pid in pids.items() if after.get(role) != pid)
        elapsed = time.monotonic() - began
        seen.cores = sum(max(0.0, used - cpu.get(pid, 0.0)) for pid, used in _cpu_seconds(after).items()) / elapsed
        seen.memory_mb = sum(read_proportional_memory(pid) or 0 for pid in after.values()) / 1e6
        lines = _read(log, offset)
        seen.lines, seen.texts = len(lines), [*lines, *seen.texts]
        seen.earlier = self._of_the_last_minute(node, began, lines)
        return seen

    def _of_the_last_minute(self, node: str, began: float, lines: list[str]) -> list[str]:
        """Return the lines of the scenarios that ended within a minute before this one began.

        Adds those of this one."""
        recent = self._recent.setdefault(node, [])
        recent[:] = [(ended, earlier) for ended, earlier in recent if ended > began - EVERY_SECONDS]
        result = [line for _, earlier in recent for line in earlier]
        recent.append((time.monotonic(), lines))
        return result

    @staticmethod
    def _longer(scenario: Scenario, plans: Iterable[FaultPlan]) -> float:
        return MEET_SECONDS if scenario.faults and not _applied(plans) else 0.0

    # --- what is seen ----------------------------------------------------------------------------------------------

    async def _pids(self, node: str) -> dict[str, int]:
        """Return the processes of a node; of one that is starting none."""
        for _ in range(int(CALL_SECONDS / POLL_SECONDS)):
            with suppress(OSError, ValueError):
                return self._network.node_pids(node)
            await asyncio.sleep(POLL_SECONDS)
        return {}

    async def _note_reasons(self, seen: Observation, node: str) -> None:
        import aiohttp

        url = self._network.nodes[node] + "/readyz"
        with suppress(aiohttp.ClientError, TimeoutError, ValueError, OSError):
            timeout = aiohttp.ClientTimeout(CALL_SECONDS)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as response:
                for reason in (await response.json()).get("reasons") or ():
                    if reason not in seen.texts and len(seen.texts) < 1000:
                        seen.texts.append(reason)

    async def _note_forged_heads(self, seen: Observation, node: str) -> None:
        """Note an L1 block of the node's status that is no block of the honest L1, of whichever branch."""
        with suppress(EndpointError, RpcFailure, KeyError, TypeError):
            status = await self._call(self._network.nodes[node], "optimism_syncStatus")
            for name in ("current_l1", "head_l1", "safe_l1", "finalized_l1"):
                block, number = status[name]["hash"], status[name]["number"]
                if number and await self._call(self._network.l1, "eth_getBlockByHash", block, False) is None:
                    text = f"{name} of the node is block {number} of another chain"
                    seen.problems += [] if text in seen.problems else [text]

    async def _until(
        self, condition: Callable[[dict[str, int]], bool], seconds: float, on_l1: bool = False
    ) -> dict[str, int] | None:
        """Return the safe heads that meet the condition, and have origins on L1's present branch if wanted.

        None if they do not in time."""
        deadline = time.monotonic() + seconds
        while True:
            heads = await self._safe_heads()
            if condition(heads) and (not on_l1 or await self._are_on_l1()):
                return heads
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(POLL_SECONDS)

    async def _until_gloas(self) -> None:
        """Wait for the first block of L1 in Gloas; its header has a slot number [HSH5]."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with suppress(EndpointError, RpcFailure, AttributeError):
                block = await self._call(self._network.l1, "eth_getBlockByNumber", "latest", False)
                if block.get("slotNumber") is not None:
                    return
            await asyncio.sleep(POLL_SECONDS)

    async def _safe_heads(self) -> dict[str, int]:
        heads = {}
        for name in (SEQUENCER, VERIFIER):
            heads[name] = 0
            with suppress(EndpointError, RpcFailure, KeyError, TypeError):
                status = await self._call(self._network.nodes[name], "optimism_syncStatus")
                heads[name] = int(status["safe_l2"]["number"])
        return heads

    async def _are_on_l1(self) -> bool:
        """Whether the origin of each safe head is a block of L1's present branch."""
        with suppress(EndpointError, RpcFailure, KeyError, TypeError):
            for name in (SEQUENCER, VERIFIER):
                origin = (await self._call(self._network.nodes[name], "optimism_syncStatus"))["safe_l2"]["l1origin"]
                block = await self._call(self._network.l1, "eth_getBlockByNumber", hex(origin["number"]), False)
                if block["hash"] != origin["hash"]:
                    return False
            return True
        return False

    async def _difference(self, number: int) -> str | None:
        """Return what differs at a safe block, if anything."""
        roots = []
        for name in (SEQUENCER, VERIFIER):
            try:
                output = await self._call(self._network.nodes[name], "optimism_outputAtBlock", hex(number))
            except (EndpointError, RpcFailure) as error:
                return f"the output root of block {number} of the {name}: {error}"
            roots.append(output["outputRoot"])
        return None if roots[0] == roots[1] else f"the output roots of block {number} differ: {' and '.join(roots)}"

    async def _call(self, url: str, method: str, *params: Any) -> Any:
        client = self._clients.get(url)
        if client is None:
            client = self._clients[url] = JsonRpcClient(url, timeout=CALL_SECONDS)
        return await client.call(method, *params)


def _applied(plans: Iterable[FaultPlan]) -> int:
    return sum(plan.applied for plan in plans)


def _cpu_seconds(pids: dict[str, int]) -> dict[int, float]:
    """Return the CPU time of each process so far."""
    return {pid: stat.cpu for pid in pids.values() if (stat := read_stat(pid)) is not None}


def _read(log: Path, offset: int) -> list[str]:
    """Return the lines of a log from an offset on."""
    with log.open("rb") as file:
        file.seek(offset)
        return _COLOUR.sub("", file.read(MAX_TEXT).decode(errors="replace")).splitlines()
