"""Starts the programs of a local network in order, each after what it needs answers, and describes them."""

import asyncio
import json
import re
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from rollup_node.stages.io.jsonrpc import EndpointError, JsonRpcClient, RpcFailure
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.child_programs import ChildPrograms, python
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.files import (
    L1_CHAIN_ID,
    NetworkFiles,
    dependency_set,
    l1_chain_config,
    l1_genesis,
    rollup_json,
    write_json,
    write_secrets,
)
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.peering import address, peer_options
from rollup_node.tools.devnet.ports import LOOPBACK, Ports
from rollup_node.tools.devnet.settings import SEQUENCER, VERIFIER, DevnetSettings

READY_SECONDS = 60.0
POLL_SECONDS = 0.1
OF_ONE_RUN = re.compile(
    r"(network|batcher)\.json|(l1|batcher)\.log"
    rf"|({SEQUENCER}|{VERIFIER}(-\d+)?)((-engine)?\.log|-(peers|discovery)\.db(-\w+)?)"
)
"""Files of the data directory that hold the state of a network, and its logs."""
EPOCH_POLL = "2s"
HEAD_POLL = "500ms"


class StartFailed(RuntimeError):
    """A part of the network does not come up; the text says which."""


class GenesisBlock(NamedTuple):
    """A chain's genesis block; time in seconds."""

    hash: str
    time: int


def _zero_of(block: Block) -> GenesisBlock:
    return GenesisBlock(to_hex(block.hash), block.header.timestamp)


def url(port: int) -> str:
    """An HTTP URL on the loopback interface."""
    return f"http://{LOOPBACK}:{port}"


class Devnet:
    """The programs of one local network, and where they listen."""

    def __init__(self, settings: DevnetSettings, places: NetworkFiles, ports: Ports) -> None:
        self._settings = settings
        self.places = places
        self._ports = ports
        self.children = ChildPrograms()
        foreign = settings.foreign
        self.l1 = foreign.l1 or url(ports.l1)
        self.beacon = foreign.beacon or url(ports.beacon)
        self._foreign_engines = {SEQUENCER: foreign.sequencer_engine, VERIFIER: foreign.verifier_engine}
        names = settings.nodes
        self.engines = {name: self._foreign_engines.get(name) or self._embedded(name) for name in names}
        self.nodes = {name: url(ports.nodes[name].rpc) for name in names}
        self.metrics = {name: url(ports.nodes[name].metrics) for name in names}

    def _embedded(self, name: str) -> tuple[str, str]:
        return url(self._ports.nodes[name].engine), url(self._ports.nodes[name].engine_auth)

    async def start(self) -> None:
        """Brings everything up; raises StartFailed or ChildEnded. The hashes of embedded genesis blocks are computed
        here, not asked for, so that all programs start at the same time."""
        write_secrets(self.places, self._settings.nodes)
        if not self._prepared():
            write_json(self.places.l1_genesis, l1_genesis(int(time.time())))
        self._start_l1()
        l1_zero = await self._l1_zero()
        if not self._prepared():
            write_json(self.places.l2_genesis, self._l2_genesis(l1_zero.time))
        write_json(self.places.l1_chain, l1_chain_config())
        write_json(self.places.dependency_set, dependency_set())
        self._start_engines()
        l2_zero = await self._l2_zero()
        write_json(self.places.rollup, rollup_json(self._settings, l1_zero.hash, l2_zero.hash, l2_zero.time))
        for name in self.nodes:
            self.children.start(f"{name} node", self._node_command(name), self.places.log(name))
        self.children.start("batcher", self._batcher_command(), self.places.log("batcher"))
        self.describe()
        for name in self.nodes:
            await self._answers(f"{name} node", self.nodes[name], "optimism_version")

    def _l2_genesis(self, time: int) -> dict[str, Any]:
        return l2_genesis(self._settings.forks, time, self._settings.l2_alloc)

    async def _l1_zero(self) -> "GenesisBlock":
        if self._settings.foreign.l1 or self._settings.foreign.anvil:
            return await self._ask_zero("L1", self.l1)
        genesis = json.loads(self.places.l1_genesis.read_text())
        return _zero_of(L1Backend(genesis, self._settings.l1_block_time).chain.genesis)

    async def _l2_zero(self) -> "GenesisBlock":
        """The genesis block of all engines."""
        ours = _zero_of(parse_genesis(self.places.l2_genesis.read_bytes()).block)
        for name, given in self._foreign_engines.items():
            if given is None:
                continue
            theirs = await self._ask_zero(f"engine of the {name}", given[0])
            if theirs != ours:
                raise StartFailed(
                    f"the engine at {given[0]} has genesis block {theirs.hash}, not {ours.hash}: "
                    f"start it from {self.places.l2_genesis}"
                )
        return ours

    def _prepared(self) -> bool:
        """Whether the genesis files of --prepare are to be used: engines of the user's own were started from them."""
        foreign = self._settings.foreign
        return bool(foreign.sequencer_engine or foreign.verifier_engine) and self.places.l2_genesis.exists()

    def describe(self) -> None:
        """Writes `network.json`: every URL and file, for programs that drive the network."""
        write_json(
            self.places.network,
            {
                "l1": self.l1,
                "beacon": self.beacon,
                "jwt": str(self.places.jwt),
                "rollup": str(self.places.rollup),
                "l2_genesis": str(self.places.l2_genesis),
                "nodes": {
                    name: {
                        "rpc": self.nodes[name],
                        "metrics": self.metrics[name],
                        "engine": self.engines[name][0],
                        "engine_auth": self.engines[name][1],
                        "processes": str(self.places.node(name) / "processes.json"),
                        "log": str(self.places.log(name)),
                        "p2p": address(self.places, name, self._ports.nodes[name].p2p),
                    }
                    for name in self.nodes
                },
                "pids": self.children.pids(),
            },
        )

    def _start_l1(self) -> None:
        foreign = self._settings.foreign
        if foreign.l1:
            return
        block_time = str(self._settings.l1_block_time)
        if foreign.anvil:
            self.children.start("anvil", self._anvil_command(foreign.anvil, block_time), self.places.log("l1"))
            return
        arguments = ["--genesis", str(self.places.l1_genesis), "--port", str(self._ports.l1)]
        arguments += ["--beacon-port", str(self._ports.beacon), "--slot-time", block_time]
        self.children.start("l1", python("rollup_node.tools.devnet.l1", *arguments), self.places.log("l1"))

    def _anvil_command(self, binary: str, block_time: str) -> list[str]:
        found = shutil.which(binary)
        if found is None:
            raise StartFailed(f"--anvil {binary}: no such program")
        listen = ["--host", LOOPBACK, "--port", str(self._ports.l1), "--chain-id", str(L1_CHAIN_ID)]
        genesis = ["--init", str(self.places.l1_genesis), "--hardfork", "prague", "--slots-in-an-epoch", "2"]
        return [found, *listen, *genesis, "--block-time", block_time]

    def _start_engines(self) -> None:
        for name in self.nodes:
            if self._foreign_engines.get(name) is not None:
                continue
            ports = self._ports.nodes[name]
            arguments = ["--genesis", str(self.places.l2_genesis), "--jwt", str(self.places.jwt)]
            arguments += ["--http", str(ports.engine), "--auth", str(ports.engine_auth)]
            command = python("rollup_node.tools.devnet.engine", *arguments)
            self.children.start(f"{name} engine", command, self.places.log(f"{name}-engine"))

    def _node_command(self, name: str) -> list[str]:
        ports, foreign = self._ports.nodes[name], self._settings.foreign
        without_beacon = foreign.anvil is not None or (foreign.l1 is not None and foreign.beacon is None)
        options = {
            "l1": self.l1,
            "l1.http-poll-interval": HEAD_POLL,
            "l1.epoch-poll-interval": EPOCH_POLL,
            **({"l1.beacon.ignore": "true", "l1.trustrpc": "true"} if without_beacon else {"l1.beacon": self.beacon}),
            "l2": self.engines[name][1],
            "l2.jwt-secret": str(self.places.jwt),
            "rollup.config": str(self.places.rollup),
            "rollup.l1-chain-config": str(self.places.l1_chain),
            "interop.dependency-set": str(self.places.dependency_set),
            "rpc.addr": LOOPBACK,
            "rpc.port": str(ports.rpc),
            "rpc.enable-admin": "true",
            "metrics.enabled": "true",
            "metrics.addr": LOOPBACK,
            "metrics.port": str(ports.metrics),
            **peer_options(self.places, name, ports.p2p, self._ports.nodes[SEQUENCER].p2p),
            "log.level": self._settings.log_level,
            "runtime.dir": str(self.places.node(name)),
            "workers": "1",
        }
        if name == SEQUENCER:
            options |= {"sequencer.enabled": "true", "sequencer.l1-confs": "1"}
        return python("rollup_node.node", *(f"--{flag}={value}" for flag, value in options.items()))

    def _batcher_command(self) -> list[str]:
        options = {
            "l1": self.l1,
            "engine": self.engines[SEQUENCER][0],
            "node": self.nodes[SEQUENCER],
            "rollup": str(self.places.rollup),
            "key-file": str(self.places.batcher_key),
            "batch": self._settings.batch,
            "da": self._settings.da,
            "compression": self._settings.compression,
            "state-file": str(self.places.root / "batcher.json"),
        }
        return python("rollup_node.tools.batcher", *(f"--{flag}={value}" for flag, value in options.items()))

    async def _ask_zero(self, name: str, endpoint: str) -> "GenesisBlock":
        block = await self._answers(name, endpoint, "eth_getBlockByNumber", "0x0", False)
        try:
            return GenesisBlock(block["hash"], int(block["timestamp"], 16))
        except (KeyError, TypeError, ValueError):
            raise StartFailed(f"{name} at {endpoint} has no block 0") from None

    async def _answers(self, name: str, endpoint: str, method: str, *params: Any) -> Any:
        """The first answer of an endpoint that is starting."""
        client = JsonRpcClient(endpoint, timeout=5.0)
        deadline = time.monotonic() + READY_SECONDS
        try:
            while True:
                self.children.check()
                try:
                    return await client.call(method, *params)
                except (EndpointError, RpcFailure) as error:
                    if time.monotonic() > deadline:
                        raise StartFailed(f"{name} did not answer within {READY_SECONDS:.0f} s: {error}") from error
                await asyncio.sleep(POLL_SECONDS)
        finally:
            await client.close()


def clear(root: Path) -> None:
    """Removes what an earlier network left in a data directory: chains start anew each time."""
    for path in root.iterdir():
        if OF_ONE_RUN.fullmatch(path.name):
            path.unlink(missing_ok=True)
