"""Starts the programs of a local network, each once those it depends on answer, and describes them."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rollup_node.stages.io.http.endpoint_errors import EndpointError, RpcFailure
from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.child_programs import ChildPrograms, python
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.files import (
    L1_CHAIN_ID,
    NetworkFiles,
    dependency_set,
    l1_genesis,
    rollup_json,
    write_json,
    write_secrets,
)
from rollup_node.tools.devnet.fork_server import ForkServer
from rollup_node.tools.devnet.games import ANCHOR, FACTORY
from rollup_node.tools.devnet.l1.backend import L1Backend
from rollup_node.tools.devnet.l1.beacon import genesis_json, spec_json
from rollup_node.tools.devnet.l1.signed_headers import DEVELOPMENT
from rollup_node.tools.devnet.l2_genesis import l2_genesis, other_forks
from rollup_node.tools.devnet.ports import LOOPBACK, Ports, address, peer_options
from rollup_node.tools.devnet.settings import SEQUENCER, VERIFIER, DevnetSettings

if TYPE_CHECKING:  # not in the wheel
    from rollup_node.tools.devnet.faults.disk import SmallDisk
    from rollup_node.tools.devnet.faults.events import OwnClock

READY_SECONDS = 60.0
POLL_SECONDS = 0.1
RUN_FILES = re.compile(
    r"(network|batcher)\.json|(l1|forged-l1|batcher|conductor|da-server)\.log"
    rf"|{VERIFIER}-(clock\.txt|disk)|(({SEQUENCER}|{VERIFIER})(-\d+)?)((-engine)?\.log|-engine-data|-proven-root\.json|-(peers|discovery|safe-heads)\.db(_signed_blocks)?(-\w+)?)"
)
"""Files of the data directory that belong to one run: the logs and the state of the programs."""
EL_SYNC_BLOCKS = 8
"""The length of the chain when nodes start that sync by their engines."""
EL_SYNC_OFFSET = "4s"
EPOCH_POLL = "2s"
HEAD_POLL = "500ms"
UNSAFE_INTERVAL_SECONDS = 5
"""With the block time the age from which the conductor takes a leader's unsafe head for stuck."""


class StartFailed(RuntimeError):
    """A program of the network does not start; the text names it."""


class GenesisBlock(NamedTuple):
    """The hash and the time in seconds of a chain's genesis block."""

    hash: str
    time: int


def _genesis_block(block: Block) -> GenesisBlock:
    return GenesisBlock(to_hex(block.hash), block.header.timestamp)


def _own_clock(library: Path, file: Path) -> "OwnClock":
    from rollup_node.tools.devnet.faults.events import OwnClock

    return OwnClock(library, file)


def url(port: int) -> str:
    """Return an HTTP URL on the loopback interface."""
    return f"http://{LOOPBACK}:{port}"


class NetworkPrograms:
    """The programs of one local network and their URLs.

    `disk` has the verifier's files if they are not in `root`; `forks` starts those that are not nodes."""

    def __init__(
        self,
        settings: DevnetSettings,
        files: NetworkFiles,
        ports: Ports,
        disk: "SmallDisk | None" = None,
        forks: ForkServer | None = None,
    ) -> None:
        self._settings = settings
        self.files = files
        self._ports = ports
        self.children = ChildPrograms(forks=forks)
        external = settings.external
        self.l1 = external.l1 or url(ports.l1)
        self.beacon = external.beacon or url(ports.beacon)
        self.forged_l1 = url(ports.forged_l1) if settings.forged_l1 else None
        self.forged_beacon = url(ports.forged_beacon) if settings.forged_l1 else None
        self._external_engines = {SEQUENCER: external.sequencer_engine, VERIFIER: external.verifier_engine}
        names = settings.nodes
        self.engines = {name: self._external_engines.get(name) or self._embedded(name) for name in names}
        self.nodes = {name: url(ports.nodes[name].rpc) for name in names}
        self.metrics = {name: url(ports.nodes[name].metrics) for name in names}
        self.status_pages = {name: f"{url(ports.status[name])}/status" for name in names}
        self.conductor = url(ports.conductor) if settings.conductor else None
        self.disk = disk
        self._l2_time = 0
        self._checkpoint = ""
        self.signer = url(ports.signer) if settings.signer else None
        self.da_server = url(ports.da_server) if settings.altda else None
        self.clock = None if settings.clock_library is None else _own_clock(settings.clock_library, files.clock)
        """The clock of the verifier, if it has one of its own."""
        self.proxies: dict[str, dict[str, str]] = {}
        """The URLs of the fault proxies before the endpoints of each node, by the option of the node."""

    @property
    def sequencer_p2p_ports(self) -> dict[str, int]:
        """The P2P ports of the sequencers."""
        return {name: self._ports.nodes[name].p2p for name in self._settings.sequencer_names}

    def reserved_ports(self) -> list[int]:
        """All TCP ports of the network's programs."""
        _ports = self._ports
        nodes = [port for node in _ports.nodes.values() for port in vars(node).values()]
        return [
            _ports.l1,
            _ports.beacon,
            _ports.signer,
            _ports.conductor,
            _ports.da_server,
            _ports.forged_l1,
            _ports.forged_beacon,
            *_ports.status.values(),
            *nodes,
        ]

    def _has_ipc(self, name: str) -> bool:
        return self._settings.ipc and self._external_engines.get(name) is None

    def _embedded(self, name: str) -> tuple[str, str]:
        return url(self._ports.nodes[name].engine), url(self._ports.nodes[name].engine_auth)

    def stopped(self, program: str) -> AbstractContextManager[None]:
        """Kill a program, and start it again at the end of the context."""
        return self.children.stopped(program)

    def node_pids(self, name: str) -> dict[str, int]:
        """Return the process id of each role of a node, the supervisor included."""
        entries = json.loads((self.files.node(name) / "processes.json").read_text())
        return {entry["role"]: entry["pid"] for entry in entries}

    def engine_data(self, name: str) -> Path:
        """Return the directory in which the embedded engine of a node keeps its chain."""
        return self.files.engine_data(name)

    @property
    def fork_time(self) -> int | None:
        """The L2 timestamp in seconds at which the last fork activates that is not active at genesis.

        None before the genesis is known, and without such a fork."""
        late = max(self._settings.forks.values(), default=0)
        return self._l2_time + late if late and self._l2_time else None

    async def start(self) -> None:
        """Start all programs and wait until the nodes answer. Raises StartFailed or ProgramExited.

        The hashes of embedded genesis blocks are computed here, so that all programs can start at the same time."""
        write_secrets(self.files, self._settings.nodes)
        if self._is_prepared():
            self._check_prepared_forks()
        else:
            write_json(self.files.l1_genesis, l1_genesis(int(time.time()), self._settings.l1_forks))
        self._start_l1()
        l1_block = await self._l1_genesis_block()
        if not self._is_prepared():
            write_json(self.files.l2_genesis, self._l2_genesis(l1_block.time))
        write_json(self.files.l1_chain, json.loads(self.files.l1_genesis.read_text())["config"])
        write_json(self.files.dependency_set, dependency_set(self._settings.dependencies))
        self._start_engines()
        l2_block = await self._l2_genesis_block()
        self._l2_time = l2_block.time
        write_json(self.files.rollup, rollup_json(self._settings, l1_block.hash, l2_block.hash, l2_block.time))
        if self._settings.signer:
            await self._start_signer()
        if self.conductor is not None:
            await self._start_conductor(self.conductor)
        if self._settings.altda:
            self._start_da_server(self._settings.altda)
        late = [name for name in self.nodes if self._syncs(name)]
        self._start_nodes([name for name in self.nodes if name not in late])
        if self._settings.batcher:
            self.children.start("batcher", self._batcher_command(), self.files.log("batcher"))
        self.describe()  # before the nodes answer: tests and users watch the start
        if late:
            await self._wait_for_blocks(EL_SYNC_BLOCKS)
            self._start_nodes(late)
            self.describe()
        for name in self.nodes:
            await first_response(self.children, f"{name} node", self.nodes[name], "optimism_version")

    def _syncs(self, name: str) -> bool:
        """Whether a node starts late, and its engine fetches the chain from the sequencer's."""
        return self._settings.el_sync and name not in self._settings.sequencer_names

    def _start_nodes(self, names: Sequence[str]) -> None:
        """With a conductor a sequencer that exits is no end of the network: another one leads then.

        A verifier whose disk is full may exit, and is then started again as by a service manager."""
        for name in names:
            again = self._settings.conductor and name in self._settings.sequencer_names
            again = again or (self._settings.small_disk and name == VERIFIER)
            command = self._node_command(name)
            if self.clock is not None and name == VERIFIER:
                command = [*self.clock.prefix(), *command]
            self.children.start(f"{name} node", command, self.files.log(name), is_restarted=again)

    async def _wait_for_blocks(self, count: int) -> None:
        """Wait until the sequencer's engine has this many blocks. Raises StartFailed after READY_SECONDS."""
        deadline = time.monotonic() + READY_SECONDS
        name, endpoint = "engine of the sequencer", self.engines[SEQUENCER][0]
        while int(await first_response(self.children, name, endpoint, "eth_blockNumber"), 16) < count:
            if time.monotonic() > deadline:
                raise StartFailed(f"the sequencer did not build {count} blocks within {READY_SECONDS:.0f} s")
            await asyncio.sleep(POLL_SECONDS)

    def _l2_genesis(self, time: int) -> dict[str, Any]:
        settings = self._settings
        return l2_genesis(settings.forks, time, settings.l2_alloc, linked=bool(settings.dependencies))

    async def _l1_genesis_block(self) -> "GenesisBlock":
        if self._settings.external.l1 or self._settings.external.anvil:
            return await self._fetch_genesis_block("L1", self.l1)
        genesis, preset = json.loads(self.files.l1_genesis.read_text()), self._settings.checkpoint
        l1 = L1Backend(genesis, self._settings.l1_block_time, preset=preset or DEVELOPMENT)
        if preset is not None:
            write_json(self.files.beacon_network, spec_json(l1.network) | genesis_json(l1.network))
            self._checkpoint = to_hex(l1.headers.root(l1.chain.genesis))
        return _genesis_block(l1.chain.genesis)

    async def _l2_genesis_block(self) -> "GenesisBlock":
        """Return the genesis block of all engines. Raises StartFailed where an external engine has another."""
        ours = _genesis_block(parse_genesis(self.files.l2_genesis.read_bytes()).block)
        for name, value in self._external_engines.items():
            if value is None:
                continue
            theirs = await self._fetch_genesis_block(f"engine of the {name}", value[0])
            if theirs != ours:
                raise StartFailed(
                    f"engine {value[0]} has genesis block {theirs.hash}, expected {ours.hash}: "
                    f"initialise it with {self.files.l2_genesis}"
                )
        return ours

    def _is_prepared(self) -> bool:
        """Whether to use the genesis files that --prepare wrote, since external engines were initialised with them."""
        external = self._settings.external
        return bool(external.sequencer_engine or external.verifier_engine) and self.files.l2_genesis.exists()

    def _check_prepared_forks(self) -> None:
        """Raise StartFailed where --prepare was given other forks: engines and nodes would not agree on a block."""
        other = other_forks(json.loads(self.files.l2_genesis.read_text()), self._settings.forks)
        if other:
            forks, path = ", ".join(other), self.files.l2_genesis
            raise StartFailed(f"{path}, which --prepare wrote, has other times of {forks}: repeat its flags --fork")

    def describe(self) -> None:
        """Write `network.json`: the URLs and files of all programs."""
        write_json(
            self.files.network,
            {
                "l1": self.l1,
                "beacon": self.beacon,
                "jwt": str(self.files.jwt),
                "rollup": str(self.files.rollup),
                "l2_genesis": str(self.files.l2_genesis),
                "batcher_key": str(self.files.batcher_key),
                **({} if self._settings.external.l1 else {"games": to_hex(FACTORY), "anchor": to_hex(ANCHOR)}),
                **({"checkpoint": self._checkpoint} if self._checkpoint else {}),
                **({"forged_l1": self.forged_l1, "forged_beacon": self.forged_beacon} if self.forged_l1 else {}),
                **({} if self.conductor is None else {"conductor": self.conductor}),
                "nodes": {
                    name: {
                        "rpc": self.nodes[name],
                        "metrics": self.metrics[name],
                        "status_page": self.status_pages[name],
                        "engine": self.engines[name][0],
                        "engine_auth": self.engines[name][1],
                        "processes": str(self.files.node(name) / "processes.json"),
                        "log": str(self.files.log(name)),
                        "p2p": address(self.files, name, self._ports.nodes[name].p2p),
                    }
                    for name in self.nodes
                },
                "pids": self.children.pids(),
            },
        )

    def _start_l1(self) -> None:
        external = self._settings.external
        if external.l1:
            return
        block_time = str(self._settings.l1_block_time)
        if external.anvil:
            self.children.start("anvil", self._anvil_command(external.anvil, block_time), self.files.log("l1"))
            return
        arguments = ["--genesis", str(self.files.l1_genesis), "--slot-time", block_time]
        if self._settings.finalized_distance is not None:
            arguments += ["--finalized-distance", str(self._settings.finalized_distance)]
        if (preset := self._settings.checkpoint) is not None:
            arguments += ["--committee-size", str(preset.sync_committee_size)]
            arguments += ["--period-epochs", str(preset.epochs_per_period)]
        self._start_embedded_l1("l1", self._ports.l1, self._ports.beacon, arguments)
        if self._settings.forged_l1 and preset is not None:
            arguments += ["--branch", "1", "--signers", str(preset.sync_committee_size // 3)]
            self._start_embedded_l1("forged-l1", self._ports.forged_l1, self._ports.forged_beacon, arguments)

    def _start_embedded_l1(self, name: str, port: int, beacon_port: int, arguments: Sequence[str]) -> None:
        words = ["--port", str(port), "--beacon-port", str(beacon_port), *arguments]
        self.children.start(name, python("rollup_node.tools.devnet.l1", *words), self.files.log(name))

    def _anvil_command(self, binary: str, block_time: str) -> list[str]:
        result = shutil.which(binary)
        if result is None:
            raise StartFailed(f"--anvil {binary}: no such program")
        listen = ["--host", LOOPBACK, "--port", str(self._ports.l1), "--chain-id", str(L1_CHAIN_ID)]
        genesis = ["--init", str(self.files.l1_genesis), "--hardfork", "prague", "--slots-in-an-epoch", "2"]
        return [result, *listen, *genesis, "--block-time", block_time]

    def _start_engines(self) -> None:
        for name in self.nodes:
            if self._external_engines.get(name) is not None:
                continue
            ports = self._ports.nodes[name]
            arguments = ["--genesis", str(self.files.l2_genesis), "--jwt", str(self.files.jwt)]
            arguments += ["--http", str(ports.engine), "--auth", str(ports.engine_auth)]
            arguments += ["--el-sync-from", self.engines[SEQUENCER][0]] if self._syncs(name) else []
            arguments += [f"--like={trait}" for node, trait in self._settings.engine_traits if node in (name, None)]
            again = self._settings.conductor or bool(self._settings.scenarios) or self._settings.keeps_engines
            arguments += ["--data-dir", str(self.files.engine_data(name))] if again else []
            arguments += ["--ipc", str(self.files.engine_ipc(name))] if self._has_ipc(name) else []
            command = python("rollup_node.tools.devnet.engine", *arguments)
            self.children.start(f"{name} engine", command, self.files.log(f"{name}-engine"), is_restarted=again)

    async def _start_signer(self) -> None:
        """Start the signer, without which a node does not start."""
        words = ("--key-file", str(self.files.signer_key), "--port", str(self._ports.signer))
        self.children.start("signer", python("rollup_node.tools.devnet.signer", *words), self.files.log("signer"))
        await first_response(self.children, "signer", url(self._ports.signer), "health_status")

    async def _start_conductor(self, endpoint: str) -> None:
        block_time = self._settings.l2_block_time
        words = ["--port", str(self._ports.conductor), "--l1", self.l1, "--rollup", str(self.files.rollup)]
        words += ["--unsafe-interval", str(UNSAFE_INTERVAL_SECONDS + block_time)]
        for name in self._settings.sequencer_names:
            words += ["--sequencer", f"{name}={self.nodes[name]}"]
        command = python("rollup_node.tools.devnet.conductor", *words)
        self.children.start("conductor", command, self.files.log("conductor"))
        await first_response(self.children, "conductor", endpoint, "dev_conductor", 0)

    def _start_da_server(self, mode: str) -> None:
        """Nodes and batcher repeat their requests until it listens."""
        words = ("--mode", mode, "--port", str(self._ports.da_server))
        self.children.start(
            "DA server", python("rollup_node.tools.devnet.da_server", *words), self.files.log("da-server")
        )

    def _node_command(self, name: str) -> list[str]:
        ports, external = self._ports.nodes[name], self._settings.external
        without_beacon = external.anvil is not None or (external.l1 is not None and external.beacon is None)
        options = {
            "l1": self.l1 if self.forged_l1 is None else f"{self.forged_l1},{self.l1}",
            "l1.http-poll-interval": HEAD_POLL,
            "l1.epoch-poll-interval": EPOCH_POLL,
            **({"l1.beacon.ignore": "true", "l1.trustrpc": "true"} if without_beacon else {"l1.beacon": self.beacon}),
            "l2": str(self.files.engine_ipc(name)) if self._has_ipc(name) else self.engines[name][1],
            "l2.jwt-secret": str(self.files.jwt),
            "rollup.config": str(self.files.rollup),
            "rollup.l1-chain-config": str(self.files.l1_chain),
            "interop.dependency-set": str(self.files.dependency_set),
            "safedb.path": str(self.files.safe_head_database(name)),
            "rpc.addr": LOOPBACK,
            "rpc.port": str(ports.rpc),
            "rpc.enable-admin": "true",
            "metrics.enabled": "true",
            "metrics.addr": LOOPBACK,
            "metrics.port": str(ports.metrics),
            "status.enabled": "true",
            "status.port": str(self._ports.status[name]),
            **peer_options(
                self.files,
                name,
                ports.p2p,
                self.sequencer_p2p_ports,
                self.signer,
            ),
            "log.level": self._settings.log_level,
            "runtime.dir": str(self.files.node(name)),
            "workers": "1",
            "rollup.bundle-dir": str(self.files.bundles(name)),
        }
        if self.forged_beacon is not None:
            options["l1.beacon-fallbacks"] = self.forged_beacon
        if self._checkpoint:
            options |= {
                "l1.checkpoint": self._checkpoint,
                "l1.checkpoint.network": str(self.files.beacon_network),
                "l1.checkpoint.path": str(self.files.proven_root(name)),
            }
        bundles = self._settings.lagoon_bundles
        if (bundle := bundles.get(name) or bundles.get("")) is not None:
            options["rollup.lagoon-bundle"] = bundle
        if self.da_server is not None:
            options |= {"altda.enabled": "true", "altda.da-server": self.da_server}
        if self._syncs(name):
            options |= {"syncmode": "execution-layer", "syncmode.offset-el-safe": EL_SYNC_OFFSET}
        if name in self._settings.sequencer_names:
            options |= {"sequencer.enabled": "true", "sequencer.l1-confs": "1"}
            if self.conductor is not None:
                options |= {"conductor.enabled": "true", "conductor.rpc": f"{self.conductor}/{name}"}
        options |= {flag: address for flag, address in self.proxies.get(name, {}).items() if flag in options}
        return with_options("rollup_node", options)

    def _batcher_command(self) -> list[str]:
        settings = self._settings
        options = {"batch": settings.batch, "da": settings.da, "compression": settings.compression}
        if settings.altda:
            options |= {"da-server": url(self._ports.da_server), "challenges": _challenges(settings.altda)}
        return batcher_command(self.files, self.l1, self.engines[SEQUENCER][0], self.nodes[SEQUENCER], options)

    async def _fetch_genesis_block(self, name: str, endpoint: str) -> "GenesisBlock":
        block = await first_response(self.children, name, endpoint, "eth_getBlockByNumber", "0x0", False)
        try:
            return GenesisBlock(block["hash"], int(block["timestamp"], 16))
        except (KeyError, TypeError, ValueError):
            raise StartFailed(f"{name} at {endpoint} has no block 0") from None


def with_options(module: str, options: Mapping[str, str], *words: str) -> list[str]:
    """Return the command of a module with words, then options."""
    return python(module, *words, *(f"--{flag}={value}" for flag, value in options.items()))


def batcher_command(files: NetworkFiles, l1: str, engine: str, node: str, options: Mapping[str, str]) -> list[str]:
    """Return the command of the batcher of a chain, by the URLs of L1 and of its sequencer."""
    shared = {"l1": l1, "engine": engine, "node": node, "rollup": str(files.rollup)}
    shared |= {"key-file": str(files.batcher_key), "state-file": str(files.root / "batcher.json")}
    return with_options("rollup_node.tools.batcher", {**shared, **options})


async def first_response(children: ChildPrograms, name: str, endpoint: str, method: str, *params: Any) -> Any:
    """Return the first response of a program that is starting. Raises StartFailed after `READY_SECONDS`."""
    client = JsonRpcClient(endpoint, timeout=5.0)
    deadline = time.monotonic() + READY_SECONDS
    try:
        while True:
            children.check()
            try:
                return await client.call(method, *params)
            except (EndpointError, RpcFailure) as error:
                if time.monotonic() > deadline:
                    raise StartFailed(f"{name} did not answer within {READY_SECONDS:.0f} s: {error}") from error
            await asyncio.sleep(POLL_SECONDS)
    finally:
        await client.close()


def _challenges(mode: str) -> str:
    """Return what the batcher does with an input that this DA server loses."""
    return "expire" if mode == "withholding" else "resolve"


def clear(root: Path) -> None:
    """Remove the files of an earlier run from a data directory: each run starts its chains from genesis."""
    for path in root.iterdir():
        if RUN_FILES.fullmatch(path.name) and path.is_dir():
            shutil.rmtree(path)
        elif RUN_FILES.fullmatch(path.name):
            path.unlink(missing_ok=True)
