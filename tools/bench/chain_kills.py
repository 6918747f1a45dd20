"""Measures how much later the safe heads of other chains are when one chain's processes are killed again and again.

    python -m rollup_node.tools.bench.chain_kills [--chains 3] [--kills 100] [--every 6.5]

A local network with one supernode runs a calm time first, and then that of so many kills of the first chain's
processes in turn. A chain is set aside for up to 10 minutes when one of its processes dies more often than every 12 s
(`--every 1` and fewer kills show that). The time between two advances of a chain's safe head is taken for all others,
whose batchers post in each L1 block."""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.devnet.fork_server import fork_server
from rollup_node.tools.devnet.ports import reserved_numbers
from rollup_node.tools.multichain.programs import ChainsPrograms, port_count
from rollup_node.tools.multichain.run import CHAIN_ROLES
from rollup_node.tools.multichain.settings import ChainsSettings, parse

POLL_SECONDS, START_SECONDS, CALM_SECONDS = 0.1, 60.0, 120.0
PERCENT = 99


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when the bound is exceeded."""
    return asyncio.run(_run(argv))


async def _run(argv: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=3)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--every", type=float, default=6.5, help="seconds between two kills")
    args = parser.parse_args(argv)
    settings = parse(["--chains", str(args.chains), "--supernodes", "1", "--duration", "0"])
    with (
        tempfile.TemporaryDirectory(prefix="chain-kills-") as folder,
        fork_server() as forks,
        reserved_numbers(0, port_count(settings)) as numbers,
    ):
        network = ChainsPrograms(settings, Path(folder), numbers, forks)
        try:
            await network.start()
            figures = await _figures(network, settings, args)
        finally:
            await asyncio.to_thread(network.children.stop)
    return show(f"{args.kills} kills of one chain's processes, {args.chains - 1} others", figures)


async def _figures(network: ChainsPrograms, settings: ChainsSettings, namespace: argparse.Namespace) -> list[Figure]:
    name, address = next(iter(network.supernodes.items()))
    victim, *others = [str(local.id) for local in network.chains]
    client = JsonRpcClient(address, timeout=5.0)
    try:
        await _until_safe(client, others)
        seconds = min(namespace.kills * namespace.every, CALM_SECONDS)
        calm = await _gaps(client, others, asyncio.create_task(asyncio.sleep(seconds)))
        before = _incarnations(network.processes(name), others)
        killing = asyncio.create_task(_kill(network.processes(name), victim, namespace))
        loaded = await _gaps(client, others, killing)
        kills = await killing
    finally:
        await client.close()
    later = _percentile(loaded) - _percentile(calm)
    lost = _incarnations(network.processes(name), others) - before
    return [
        Figure(f"time between safe heads, calm, p{PERCENT}", "s", (_percentile(calm),)),
        Figure(f"time between safe heads with {kills} kills, p{PERCENT}", "s", (_percentile(loaded),)),
        Figure("longest, calm", "s", (max(calm),)),
        Figure("longest, with kills", "s", (max(loaded),)),
        Figure("later by", "s", (later,), float(settings.l1_block_time)),
        Figure("other processes that ended", "", (float(lost),), 0.0),
    ]


async def _until_safe(client: JsonRpcClient, chains: Sequence[str]) -> None:
    async with asyncio.timeout(START_SECONDS):
        while min((await _safe_heads(client, chains)).values(), default=0) == 0:
            await asyncio.sleep(POLL_SECONDS)


async def _safe_heads(client: JsonRpcClient, chains: Sequence[str]) -> dict[str, int]:
    """Return the safe heads by chain, none while the supernode does not answer."""
    with contextlib.suppress(EndpointError, RpcFailure):
        status = await client.call("supernode_syncStatus")
        return {chain: status["chains"][chain]["safe_l2"]["number"] for chain in chains}
    return {}


async def _gaps(client: JsonRpcClient, chains: Sequence[str], until: asyncio.Task[Any]) -> list[float]:
    """Return the seconds between two advances of these chains' safe heads, until a task is done."""
    gaps: list[float] = []
    last: dict[str, tuple[int, float]] = {}
    while not until.done():
        now = time.monotonic()
        for chain, number in (await _safe_heads(client, chains)).items():
            if chain not in last or number > last[chain][0]:
                gaps += [now - last[chain][1]] if chain in last else []
                last[chain] = number, now
        await asyncio.sleep(POLL_SECONDS)
    return gaps + [now - since for _, since in last.values()]


async def _kill(path: Path, chain: str, namespace: argparse.Namespace) -> int:
    """Kill the processes of a chain in turn until so many were killed: it has none while it is set aside."""
    kills, roles = 0, itertools.cycle(CHAIN_ROLES[:2])
    while kills < namespace.kills:
        await asyncio.sleep(namespace.every * 0.98)
        role = next(roles)
        for entry in json.loads(path.read_text()):
            if entry["role"] == role and entry.get("chain") == chain:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(entry["pid"], signal.SIGKILL)
                    kills += 1
    return kills


def _incarnations(path: Path, chains: Sequence[str]) -> int:
    entries = json.loads(path.read_text())
    return sum(entry["incarnation"] for entry in entries if entry.get("chain") in chains)


def _percentile(values: Sequence[float]) -> float:
    return sorted(values)[min(len(values) - 1, len(values) * PERCENT // 100)]


if __name__ == "__main__":
    sys.exit(main())
