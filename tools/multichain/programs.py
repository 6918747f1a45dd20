"""The programs of a local network of several chains, and their files."""

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.types import CROSS_L2_INBOX
from rollup_node.tools.devnet.chain.blocks import Block
from rollup_node.tools.devnet.child_programs import ChildPrograms, python
from rollup_node.tools.devnet.engine.genesis import parse_genesis
from rollup_node.tools.devnet.files import (
    FUNDS,
    DevnetChain,
    NetworkFiles,
    dependency_set,
    devnet_chain,
    l1_genesis,
    rollup_json,
    write_json,
    write_secrets,
)
from rollup_node.tools.devnet.fork_server import ForkServer
from rollup_node.tools.devnet.l1.backend import FINALIZED_DISTANCE, L1Backend
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.network import EPOCH_POLL, HEAD_POLL, batcher_command, first_response, url, with_options
from rollup_node.tools.devnet.ports import LOOPBACK, NETRESTRICT, NodePorts, peer_options
from rollup_node.tools.devnet.settings import SEQUENCER
from rollup_node.tools.multichain.messages import EXECUTOR_KEY, INITIATOR_KEY, LOGGER, LOGGER_CODE
from rollup_node.tools.multichain.settings import ChainsSettings

PORTS_OF_NODE = 5
OP_SUPERNODE = "op-supernode"
HELP_SECONDS = 20.0


def port_count(settings: ChainsSettings) -> int:
    """Return the ports that a network needs."""
    followers = settings.supernodes + bool(settings.op_supernode)
    return 2 + settings.chains * PORTS_OF_NODE * (1 + followers) + 3 * followers


class LocalChain:
    """One chain: its files and ports, and the engines of those that follow it by their names."""

    def __init__(self, chain: DevnetChain, root: Path, numbers: Iterator[int], followers: Sequence[str]) -> None:
        self.chain, self.files = chain, NetworkFiles(root / str(chain.id))
        self.ports = {
            name: NodePorts(*(next(numbers) for _ in range(PORTS_OF_NODE))) for name in (SEQUENCER, *followers)
        }

    @property
    def id(self) -> int:
        return self.chain.id

    def engine(self, name: str) -> str:
        """Return the URL of the public methods of an engine."""
        return url(self.ports[name].engine)

    @property
    def sequencer(self) -> str:
        """The URL of the sequencer."""
        return url(self.ports[SEQUENCER].rpc)


class ChainsPrograms:
    """The programs of one network; `supernodes` are the URLs of those that follow all chains, by name.

    `lying_source` is what the first chain's sequencer follows in place of the first supernode, empty for that."""

    def __init__(self, settings: ChainsSettings, root: Path, numbers: Iterator[int], forks: ForkServer | None) -> None:
        self._settings, self.root = settings, root
        self.children = ChildPrograms(forks=forks)
        self._l1_port, self._beacon_port = next(numbers), next(numbers)
        own = [f"supernode{f'-{number}' if number > 1 else ''}" for number in range(1, settings.supernodes + 1)]
        followers = [*own, *([OP_SUPERNODE] if settings.op_supernode else [])]
        self.chains = [LocalChain(devnet_chain(index), root, numbers, followers) for index in range(settings.chains)]
        self._ports = {name: (next(numbers), next(numbers), next(numbers)) for name in followers}
        self.status_pages = {name: f"{url(self._ports[name][2])}/status" for name in own}
        self.supernodes = {name: url(ports[0]) for name, ports in self._ports.items()}
        self.l1, self.beacon = url(self._l1_port), url(self._beacon_port)
        self.activation = self.genesis_time = 0
        self.lying_source = ""

    @property
    def dependency_set(self) -> Path:
        return self.root / "dependency-set.json"

    def processes(self, name: str) -> Path:
        """Return the list of processes of a supernode."""
        return self.root / name / "processes.json"

    async def start(self) -> None:
        """Start all programs and wait until they answer. Raises StartFailed or ProgramExited."""
        settings = self._settings
        genesis = l1_genesis(int(time.time()), chains=[local.chain for local in self.chains])
        write_json(self.root / "l1-genesis.json", genesis)
        write_json(self.root / "l1-chain-config.json", genesis["config"])
        ids = [local.id for local in self.chains]
        window = {"overrideMessageExpiryWindow": settings.expiry} if settings.expiry else {}
        write_json(self.dependency_set, dependency_set(ids[1:], ids[0]) | window)
        words = ["--port", str(self._l1_port), "--beacon-port", str(self._beacon_port)]
        words += ["--genesis", str(self.root / "l1-genesis.json"), "--slot-time", str(settings.l1_block_time)]
        words += ["--finalized-distance", str(max(FINALIZED_DISTANCE, settings.reorg_depth + 1))]
        self.children.start("l1", python("rollup_node.tools.devnet.l1", *words), self.root / "l1.log")
        l1_block = L1Backend(genesis, settings.l1_block_time).chain.genesis
        self.genesis_time = l1_block.header.timestamp
        if settings.interop_after is not None:
            self.activation = self.genesis_time + settings.interop_after
        for local in self.chains:
            self._start_chain(local, l1_block)
        for name in self.supernodes:
            command = self.op_supernode_command(name) if name == OP_SUPERNODE else self.supernode_command(name)
            self.children.start(name, command, self.root / f"{name}.log", is_restarted=name != OP_SUPERNODE)
        write_json(self.root / "network.json", self._description())
        for local in self.chains:
            await first_response(self.children, f"sequencer {local.id}", local.sequencer, "optimism_version")
        for name, address in self.supernodes.items():
            await first_response(self.children, name, address, "heartbeat_check")

    def _start_chain(self, local: LocalChain, l1_block: Block) -> None:
        settings, files = self._settings, local.files
        files.root.mkdir(exist_ok=True)
        write_secrets(files, list(local.ports), local.chain)
        genesis = l2_genesis(settings.forks, l1_block.header.timestamp, chain_id=local.id)
        genesis["alloc"] |= {to_hex(key.address): FUNDS for key in (INITIATOR_KEY, EXECUTOR_KEY)}
        logger = {"balance": "0x0", "nonce": "0x1", "code": LOGGER_CODE}
        genesis["alloc"] |= {to_hex(LOGGER): logger, to_hex(CROSS_L2_INBOX): logger}
        write_json(files.l2_genesis, genesis)
        l2_block = parse_genesis(files.l2_genesis.read_bytes()).block
        hashes = to_hex(l1_block.hash), to_hex(l2_block.hash)
        write_json(files.rollup, rollup_json(settings, *hashes, l2_block.header.timestamp, local.chain))
        for name, ports in local.ports.items():
            words = ["--genesis", str(files.l2_genesis), "--jwt", str(files.jwt), "--http", str(ports.engine)]
            words += ["--auth", str(ports.engine_auth), "--data-dir", str(files.engine_data(name))]
            if name == SEQUENCER and self.activation:
                # A sequencer that follows gets the blocks that replace its own from the engine of whom it follows.
                words += ["--el-sync-from", local.engine(next(iter(self.supernodes)))]
            command = python("rollup_node.tools.devnet.engine", *words)
            self.children.start(f"{local.id} {name} engine", command, files.log(f"{name}-engine"), is_restarted=True)
        self.children.start(f"{local.id} sequencer", self._sequencer(local), files.log(SEQUENCER))
        self.children.start(f"{local.id} batcher", self._batcher(local), files.log("batcher"))

    def _sequencer(self, local: LocalChain) -> list[str]:
        files, ports = local.files, local.ports[SEQUENCER]
        follow = f"{next(iter(self.supernodes.values()))}/{local.id}/"
        if local is self.chains[0] and self.lying_source:
            follow = self.lying_source
        options = {
            **self._shared(),
            "l2": url(ports.engine_auth),
            "l2.jwt-secret": str(files.jwt),
            "rollup.config": str(files.rollup),
            "rollup.l1-chain-config": str(self.root / "l1-chain-config.json"),
            "interop.dependency-set": str(self.dependency_set),
            "rpc.addr": LOOPBACK,
            "rpc.port": str(ports.rpc),
            "rpc.enable-admin": "true",
            "runtime.dir": str(files.node(SEQUENCER)),
            "sequencer.enabled": "true",
            "sequencer.l1-confs": "1",
            **self._peers(local, SEQUENCER),
            **({"l2.follow.source": follow} if self.activation else {"l1.beacon": self.beacon}),
            "safedb.path": str(files.safe_head_database(SEQUENCER)),
        }
        return with_options("rollup_node", options)

    def _peers(self, local: LocalChain, name: str) -> dict[str, str]:
        """Return the options by which the followers of a chain dial its sequencer."""
        if not self._settings.p2p:
            return {"p2p.disable": "true"}
        return peer_options(local.files, name, local.ports[name].p2p, {SEQUENCER: local.ports[SEQUENCER].p2p})

    def _batcher(self, local: LocalChain) -> list[str]:
        return batcher_command(
            local.files, self.l1, local.engine(SEQUENCER), local.sequencer, {"da": self._settings.da}
        )

    def supernode_command(self, name: str) -> list[str]:
        """Return the command of a supernode of this project."""
        rpc, metrics, status = self._ports[name]
        options = {
            **self._shared(),
            **self._of_supernode(name),
            "l1.beacon": self.beacon,
            "rpc.addr": LOOPBACK,
            "rpc.port": str(rpc),
            "metrics.enabled": "true",
            "metrics.addr": LOOPBACK,
            "metrics.port": str(metrics),
            "status.enabled": "true",
            "status.port": str(status),
            "runtime.dir": str(self.root / name),
            "vn.all.p2p.netrestrict": NETRESTRICT,
        }
        if self._settings.p2p:
            for local in self.chains:
                peers = self._peers(local, name).items()
                options |= {f"vn.{local.id}.{flag}": value for flag, value in peers if flag.startswith("p2p.")}
        else:
            options["disable-p2p"] = "true"
        return with_options("rollup_node", options, "supernode")

    def op_supernode_command(self, name: str) -> list[str]:
        """Return the command of op-supernode."""
        rpc, metrics, _ = self._ports[name]
        options = {
            "l1": self.l1,
            "l1.beacon": self.beacon,
            "l1.http-poll-interval": HEAD_POLL,
            "disable-p2p": "true",
            "rpc.addr": LOOPBACK,
            "rpc.port": str(rpc),
            "metrics.enabled": "true",
            "metrics.addr": LOOPBACK,
            "metrics.port": str(metrics),
            **self._of_supernode(name),
        }
        binary = self._settings.op_supernode
        assert binary is not None
        if "dependency-set" in options:
            # One without the option of its own takes the set from a chain, and others need it there as well.
            options["vn.all.interop.dependency-set"] = options["dependency-set"]
            told = subprocess.run([binary, "--help"], capture_output=True, text=True, timeout=HELP_SECONDS, check=False)
            if " --dependency-set" not in told.stdout:
                del options["dependency-set"]
        return [binary, *(f"--{flag}={value}" for flag, value in options.items())]

    def _of_supernode(self, name: str) -> dict[str, str]:
        """Return the options that are the same for op-supernode."""
        options = {
            "chains": ",".join(str(local.id) for local in self.chains),
            "data-dir": str(self.root / f"{name}-data"),
            "vn.all.rollup.l1-chain-config": str(self.root / "l1-chain-config.json"),
        }
        if self.activation:
            options["dependency-set"] = str(self.dependency_set)
            options["interop.activation-timestamp"] = str(self.activation)
            options["interop.log-backfill-depth"] = "1h"
        for local in self.chains:
            options[f"vn.{local.id}.l2"] = url(local.ports[name].engine_auth)
            options[f"vn.{local.id}.l2.jwt-secret"] = str(local.files.jwt)
            options[f"vn.{local.id}.rollup.config"] = str(local.files.rollup)
        return options

    def _shared(self) -> dict[str, str]:
        polls = {"l1.http-poll-interval": HEAD_POLL, "l1.epoch-poll-interval": EPOCH_POLL}
        return {"l1": self.l1, **polls, "log.level": self._settings.log_level, "workers": "1"}

    def _description(self) -> dict[str, object]:
        chains = {
            str(local.id): {
                "sequencer": local.sequencer,
                "engines": {name: local.engine(name) for name in local.ports},
                "rollup": str(local.files.rollup),
                "jwt": str(local.files.jwt),
            }
            for local in self.chains
        }
        shared = {"l1": self.l1, "beacon": self.beacon, "activation": self.activation, "supernodes": self.supernodes}
        return {**shared, "chains": chains, "pids": self.children.pids()}
