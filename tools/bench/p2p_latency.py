"""Measures how long a signed block of 100 KB takes from another process to the engine process.

From the write to the TCP socket to the message: transport, gossipsub, validation and the arena."""

import argparse
import asyncio
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.l1 import RuntimeConfig, RuntimeConfigs
from rollup_node.stages.messages.p2p import UnsafeBlock, UnsafeBlocksRequest
from rollup_node.stages.p2p.addresses.multiaddr import parse_multiaddr
from rollup_node.stages.p2p.addresses.peer_id import NetworkIdentity, peer_id_text
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12
from rollup_node.stages.p2p.gossipsub.rpc import PubsubMessage, Rpc, Subscription, encode_frame
from rollup_node.stages.p2p.host.io.host import Host
from rollup_node.stages.p2p.host.io.streams import Stream
from rollup_node.stages.p2p.process.stage import P2pStage, build
from rollup_node.stages.p2p.storage.io.peerstore import PeerStore
from rollup_node.stages.topology import CHANNELS
from rollup_node.tools.api.in_process import in_process_buses, running_buses
from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.signed_blocks import SIGNER, TOPIC, TOPICS, TRANSACTIONS, chain_config, signed_message

BOUND = 3.0
PAUSE = 0.05
TIMEOUT_SECONDS = 30.0
RECEIVER, SENDER = b"\x21" * 32, b"\x22" * 32


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figure; 1 when the bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=10, help="blocks that are not counted")
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    if args.warm_up:
        asyncio.run(median_milliseconds(args.warm_up))
    runs = tuple(asyncio.run(median_milliseconds(args.blocks)) for _ in range(args.runs))
    return show(
        "gossip from socket to engine message",
        [Figure(f"block of 100 KB, {TRANSACTIONS} transactions, p50", "ms", runs, BOUND)],
    )


async def median_milliseconds(blocks: int) -> float:
    """Median milliseconds from write to engine message over `blocks` blocks. Raises TimeoutError if one is lost."""
    arrivals: dict[int, float] = {}
    arrived = asyncio.Event()

    def on_message(message: Any) -> None:
        if isinstance(message, UnsafeBlock):
            arrivals[message.payload.block_number] = time.monotonic()
            arrived.set()

    with tempfile.TemporaryDirectory() as directory:
        buses = in_process_buses(CHANNELS, Path(directory), dict.fromkeys(("l1", "engine", "p2p", "rpc"), 1))
        config = _config(RECEIVER)
        runtime_configs = RuntimeConfigs({config.rollup.l2_chain_id: RuntimeConfig(SIGNER.address)})
        buses["l1"].publish("status.l1").set(runtime_configs)
        stage = build(config, buses["p2p"], Meter("p2p"))
        engine = buses["engine"].connect("p2p.blocks", on_message)
        async with running_buses(buses):
            await stage.start()
            engine.send(UnsafeBlocksRequest(0, None))
            try:
                departures = await _departures(stage, blocks)
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    while len(arrivals) < blocks:
                        arrived.clear()
                        await arrived.wait()
            finally:
                await stage.close()
    return 1000 * statistics.median(arrivals[number] - left for number, left in departures.items())


def _config(secret: bytes) -> P2pConfig:
    return P2pConfig(
        chain_config(int(time.time()) - 600),
        priv_raw=secret,
        listen_ip="127.0.0.1",
        listen_tcp=0,
        no_discovery=True,
        netrestrict=("127.0.0.0/8",),
    )


async def _departures(stage: P2pStage, blocks: int) -> dict[int, float]:
    """Start a process that sends `blocks` blocks; the monotonic time at which it wrote each, by block number."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_send_blocks, args=(stage.host.port, blocks, theirs), daemon=True)
    process.start()
    try:
        return await asyncio.to_thread(ours.recv)
    finally:
        ours.send(None)
        await asyncio.to_thread(process.join)


def _send_blocks(port: int, blocks: int, results: Connection) -> None:
    asyncio.run(_connect_and_send(port, blocks, results))


async def _connect_and_send(port: int, blocks: int, results: Connection) -> None:
    host = Host(_config(SENDER), NetworkIdentity(SENDER), PeerStore(), Meter("p2p"))
    chance, departures = random.Random(port), {}
    host.set_stream_handler(MESHSUB_12, _drain)
    receiver = NetworkIdentity(RECEIVER).peer_id
    await host.start()
    try:
        address = parse_multiaddr(f"/ip4/127.0.0.1/tcp/{port}/p2p/{peer_id_text(receiver)}")
        await host.connect(receiver, [address])
        _, stream = await host.open_stream(receiver, [MESHSUB_12])
        await stream.write(encode_frame(Rpc([Subscription(topic, True) for topic in TOPICS])))
        frames = [_frame(number, chance) for number in range(1, blocks + 1)]
        for number, frame in enumerate(frames, 1):
            await asyncio.sleep(PAUSE)
            await stream.write(frame)
            departures[number] = time.monotonic()
        results.send(departures)
        await asyncio.to_thread(results.recv)
    finally:
        await host.stop()


async def _drain(stream: Stream) -> None:
    while await stream.read():
        pass


def _frame(number: int, chance: random.Random) -> bytes:
    return encode_frame(Rpc(messages=[PubsubMessage(TOPIC, signed_message(number, int(time.time()), chance))]))


if __name__ == "__main__":
    sys.exit(main())
