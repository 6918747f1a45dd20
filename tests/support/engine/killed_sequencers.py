"""Kills a sequencer at random moments around signing and commit: run as
`python -m tests.support.engine.killed_sequencers FOLDER KILLS SEED [--conductor]`, prints one line of JSON.

A process has the execution engine and the conductor, which live on. This one forks each sequencer: the engine stage,
and the publisher with its file of signed blocks. With each kill the execution engine may lose its last blocks, and it
never builds the same block twice. All write into one file, in the order of what happens:

| line                       | written                                             |
|----------------------------|-----------------------------------------------------|
| B NUMBER HASH PAYLOAD_HASH | by the engine, when it has sealed a block; the last  |
|   PARENT                   | word is the hash of its parent                      |
| C PAYLOAD_HASH             | by the conductor, before it stores a block          |
| S PAYLOAD_HASH             | by the signer, before it signs                      |
| G PAYLOAD_HASH             | by the gossip, when a block with its signature came |"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import random
import select
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rollup_node.ipc.wire.process_id import ProcessId
from rollup_node.stages.engine.calls.engine_api import ErrorAnswer
from rollup_node.stages.engine.heads import lost_blocks
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.messages.control import StartSequencerRequest
from rollup_node.stages.messages.p2p import (
    LatestBlocksRequest,
    LatestBlocksResponse,
    PublishRequest,
    PublishResponse,
    UnsafeBlocksRequest,
)
from rollup_node.stages.p2p.blocks import block_message
from rollup_node.stages.p2p.blocks.latest_blocks import LatestBlocks
from rollup_node.stages.p2p.blocks.signing import LocalSigner, payload_hash
from rollup_node.stages.p2p.config import P2pConfig
from rollup_node.stages.p2p.process.block_publisher import BlockPublisher
from rollup_node.stages.p2p.signer.io.signed_blocks_file import SignedBlocksFile
from rollup_node.stages.protocol.engine_json import envelope_from_json, envelope_to_json
from rollup_node.stages.protocol.errors import SERVER_ERROR
from rollup_node.stages.protocol.hex_encoding import hash_from_hex, to_hex
from rollup_node.stages.protocol.payloads import ExecutionPayload
from rollup_node.stages.protocol.types import Hash
from rollup_node.stages.rpc.jsonrpc import JsonRpcError
from rollup_node.tools.bench.signed_blocks import CHAIN_ID, transfer
from rollup_node.tools.devnet.chain.jsonrpc_server import JsonRpc, Listener, application
from rollup_node.tools.devnet.conductor_control import Cluster, CommitRefused
from tests.support.chains.chain_fixture import chain_with
from tests.support.engine.engine_node import EngineNode
from tests.support.engine.fake_engine import FakeExecutionEngine
from tests.support.p2p.hosts import running_tasks
from tests.support.processes.programs import call

SERVER = "sequencer"
L1_HEAD = 1_000_000
LABEL_DEPTH = 4
MOST_LINES, MOST_SECONDS = 12, 0.004
"""A sequencer is killed at once after one of its first lines, or within that time."""
SIGNING_SECONDS = 0.001
MAX_LOST = 3
WAIT_SECONDS = 20.0
PATIENCE_SECONDS = 0.5
"""For blocks that were lost between the two processes, and that nobody has."""
FOREVER = 1e12
MOMENTS = ("sealed twice", "not gossiped")
"""Kills that matter: after them a block of the same height was sealed, or a block was signed and not gossiped."""
MOST_ROUNDS = 4


def hash_of_block(payload: ExecutionPayload) -> Hash:
    """Return the payload hash that is signed for a block."""
    rollup = chain_with().rollup
    return payload_hash(block_message.encode_signed_part(payload, block_message.version_at(rollup, payload.timestamp)))


class Recorder:
    """Writes lines, each by one call, into a file that all processes append to; then a byte into `pipe`."""

    def __init__(self, path: Path, pipe: int | None = None) -> None:
        self._file, self._pipe = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), pipe

    def __call__(self, *words: str) -> None:
        os.write(self._file, (" ".join(words) + "\n").encode())
        if self._pipe is not None:
            os.write(self._pipe, b".")


# --- what lives on ---------------------------------------------------------------------------------------------------


class LosingEngine(FakeExecutionEngine):
    """An engine whose blocks all differ, and whose head has at most a few blocks above its safe one."""

    def __init__(self, record: Recorder) -> None:
        super().__init__(chain_with())
        self.head = self.safe = self.finalized = self.chain.genesis.hash
        self._record, self._sealed = record, 0

    def get_payload(self, payload_id: bytes) -> ExecutionPayload | ErrorAnswer:
        self._sealed += 1
        self.pool = [transfer(self._sealed, CHAIN_ID)]
        payload = super().get_payload(payload_id)
        if isinstance(payload, ExecutionPayload):
            hashes = payload.block_hash, hash_of_block(payload), payload.parent_hash
            self._record("B", str(payload.block_number), *map(to_hex, hashes))
        return payload

    def restart(self, lost: int) -> None:
        """Comes back without its last blocks; what is far below the head is derived meanwhile."""
        canonical = self.canonical()
        top = max(canonical, default=0)
        label = canonical.get(top - LABEL_DEPTH)
        if label is not None:
            self.safe = self.finalized = label.block_hash
        safe = self.chain.known[self.safe].ref.number
        self.lose(max(safe, top - lost))


async def serve(record: Recorder, urls: int) -> None:
    """Serve engine and conductor; writes their URLs into the pipe `urls`."""
    cluster = Cluster((SERVER,))

    def commit(envelope: Any) -> None:
        payload = envelope_from_json(envelope)
        try:
            # What was sealed on a block that the engine had lost is refused here.
            if not cluster.extends(payload):
                cluster.commit(SERVER, payload)
            record("C", to_hex(hash_of_block(payload)))
            cluster.commit(SERVER, payload)
        except CommitRefused as error:
            raise JsonRpcError(SERVER_ERROR, str(error)) from None

    def missing(head: str) -> list[Any]:
        return [envelope_to_json(payload) for payload in cluster.after(hash_from_hex(head)) or []]

    engine = LosingEngine(record)
    async with engine.serving():
        methods: dict[str, Callable[..., Any]] = {
            "conductor_leader": lambda: True,
            "conductor_commitUnsafePayload": commit,
            "test_missing": missing,
            "test_restart": engine.restart,
        }
        conductor = Listener(application(JsonRpc(methods)), 0)
        await conductor.start()
        os.write(urls, f"{engine.url} {conductor.url}\n".encode())
        await asyncio.Event().wait()


# --- what is killed --------------------------------------------------------------------------------------------------


class RecordingSigner(LocalSigner):
    """A signer that writes down what it signs, before it does."""

    def __init__(self, record: Recorder) -> None:
        super().__init__(b"\x11" * 32)
        self._record = record

    async def sign_block(self, chain_id: int, hash_of_payload: Hash) -> bytes:
        self._record("S", to_hex(hash_of_payload))
        await asyncio.sleep(SIGNING_SECONDS)
        return await super().sign_block(chain_id, hash_of_payload)


class SequencingNode(EngineNode):
    """The engine stage beside the publisher of the p2p process."""

    def __init__(self, folder: Path, incarnation: int, record: Recorder, engine: str, **config: Any) -> None:
        chain = chain_with()
        server = FakeExecutionEngine(chain)
        server.url = engine
        super().__init__(
            chain, server, folder, incarnation, sequencer_enabled=True, sequencer_l1_confs=0, p2p=True, **config
        )
        self.l1_head = L1_HEAD
        p2p = P2pConfig(chain.rollup, peerstore_path=str(folder / "peers"), gossip_timestamp_threshold=FOREVER)
        signed_blocks = SignedBlocksFile(chain.rollup.genesis.l2.hash, p2p.signed_blocks_path)

        def gossip(payload: ExecutionPayload, version: int, part: bytes, signature: bytes) -> None:
            record("G", to_hex(payload_hash(part)))

        self.publisher = BlockPublisher(p2p, RecordingSigner(record), signed_blocks, gossip)
        self.latest = LatestBlocks(signed_blocks)

    def _take_for_peers(
        self, peer: ProcessId, message: UnsafeBlocksRequest | LatestBlocksRequest | PublishRequest
    ) -> None:
        self.engine_process = peer
        if isinstance(message, LatestBlocksRequest):
            self.peers.send(peer, LatestBlocksResponse(message.head, self.latest.above(message.head)))
        elif isinstance(message, PublishRequest):
            number = message.id
            self.publisher.publish(message, lambda error: self._answer(peer, PublishResponse(number, error)))

    def _answer(self, peer: ProcessId, response: PublishResponse) -> None:
        self.peers.send(peer, response)

    async def sequence(self, conductor: str) -> None:
        """Sequences until it is killed; `conductor` is its URL, empty where there is none."""
        lost_blocks.PATIENCE_SECONDS = PATIENCE_SECONDS
        async with self.running(), running_tasks(self.publisher.periodic_task):
            await self.start()
            if conductor:
                rpc = JsonRpcClient(conductor)
                await self._start_sequencer(rpc)
                await rpc.close()
            await asyncio.Event().wait()

    async def _start_sequencer(self, rpc: JsonRpcClient) -> None:
        """As a conductor does it: on the last committed block, which is posted where the node lacks it."""
        await self.until(lambda: self.unsafe >= 0)
        assert self.status is not None and self.status.unsafe is not None
        head = self.status.unsafe.hash
        payloads = [envelope_from_json(item) for item in await rpc.call("test_missing", to_hex(head))]
        if payloads:
            await self.gossip(*payloads)
            await self.until(lambda: self.unsafe == payloads[-1].block_number)
            head = payloads[-1].block_hash
        response = await self.admin(StartSequencerRequest(1, head))
        assert response.error is None, response.error


# --- the killer ------------------------------------------------------------------------------------------------------


def forked(run: Callable[[], object]) -> int:
    """Return the id of a process that runs this alone."""
    child = os.fork()
    if child == 0:
        with contextlib.suppress(KeyboardInterrupt):
            try:
                run()
            except BaseException as error:
                os.write(2, f"{type(error).__name__}: {error!r} {getattr(error, 'exceptions', '')}\n".encode())
        os._exit(1)
    return child


def wait_for_lines(pipe: int, count: int) -> None:
    """Wait for that many bytes. Raises AssertionError when they do not come in time, or the writer is gone."""
    deadline = time.monotonic() + WAIT_SECONDS
    while count > 0:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        data = os.read(pipe, count) if ready else b""
        if not data:
            raise AssertionError("a sequencer signs nothing, or failed before it was killed")
        count -= len(data)


class Killer:
    """Forks and kills sequencers; `conductor` is whether blocks must be committed."""

    def __init__(self, folder: Path, seed: int, conductor: bool) -> None:
        self._folder, self._chance, self._conducted = folder, random.Random(seed), conductor
        self._lines = folder / "lines"
        read, write = os.pipe()
        self.servers = forked(lambda: asyncio.run(serve(Recorder(self._lines), write)))
        os.close(write)
        self._engine, self._rpc = os.read(read, 1 << 12).decode().split()
        os.close(read)

    def kill_one(self, incarnation: int) -> None:
        """Start a sequencer, kills it, and lets the engine lose blocks."""
        read, write = os.pipe()

        def run() -> None:
            os.close(read)
            record = Recorder(self._lines, write)
            options: dict[str, Any] = {"conductor_enabled": True, "conductor_url": self._rpc} if self._conducted else {}
            node = SequencingNode(self._folder, incarnation, record, self._engine, **options)
            asyncio.run(node.sequence(self._rpc if self._conducted else ""))

        child = forked(run)
        os.close(write)
        try:
            wait_for_lines(read, self._chance.randrange(1, MOST_LINES))
            time.sleep(self._chance.choice((0.0, self._chance.uniform(0.0, MOST_SECONDS))))
        finally:
            os.close(read)
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        call(self._rpc, "test_restart", self._chance.choice((0, 0, *range(1, MAX_LOST + 1))))

    def check(self) -> Counter[str]:
        """Return the number of lines of each kind, of signatures that were not gossiped, and of heights of which
        blocks were sealed twice. Raises AssertionError for two blocks signed at a height, for one that is built on a
        parent of which another child was signed, and for a signature before the commit."""
        blocks: dict[str, tuple[int, str]] = {}
        parents: dict[str, str] = {}
        signed_on: set[str] = set()
        sealed: Counter[int] = Counter()
        signed: dict[int, set[str]] = {}
        seen: dict[str, set[str]] = {kind: set() for kind in "CSG"}
        counts: Counter[str] = Counter()
        for line in self._lines.read_text().splitlines():
            kind, *words = line.split()
            counts[kind] += 1
            if kind == "B":
                blocks[words[2]] = int(words[0]), words[1]
                parents[words[2]] = words[3]
                sealed[int(words[0])] += 1
                assert words[3] not in signed_on, f"block {words[0]} was signed, and was not put back"
                continue
            number, block_hash = blocks[words[0]]
            seen[kind].add(words[0])
            if kind == "S":
                assert not self._conducted or words[0] in seen["C"], f"block {number} was signed before its commit"
                signed.setdefault(number, set()).add(block_hash)
                signed_on.add(parents[words[0]])
                assert len(signed[number]) == 1, f"two blocks were signed at height {number}: {signed[number]}"
            elif kind == "G":
                assert words[0] in seen["S"]
        counts["not gossiped"] = len(seen["S"] - seen["G"])
        counts["not signed"] = len(seen["C"] - seen["S"])
        counts["sealed twice"] = sum(count > 1 for count in sealed.values())
        return counts


def main() -> None:
    """Kills that many sequencers, and more of them until kills have come at the moments that matter."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("kills", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--conductor", action="store_true")
    args = parser.parse_args()
    log.set_level(log.Level.ERROR)
    gc.freeze()  # a collection in each process would copy what they share
    killer = Killer(args.folder, args.seed, args.conductor)
    try:
        for incarnation in range(1, MOST_ROUNDS * args.kills + 1):
            killer.kill_one(incarnation)
            if incarnation < args.kills:
                continue
            counts = killer.check()
            if all(counts[moment] for moment in MOMENTS):
                break
        print(json.dumps({"kills": incarnation, **counts}), flush=True)
    finally:
        os.kill(killer.servers, signal.SIGKILL)
        os.waitpid(killer.servers, 0)
        for path in args.folder.glob("*.sock"):
            path.unlink()


if __name__ == "__main__":
    main()
