"""A chain with an embedded L1 and an embedded engine, each a program, and nodes on it."""

import json
import secrets
import time
from pathlib import Path
from typing import Any, Self

from rollup_node.tools.devnet.files import (
    BATCHER_KEY,
    NetworkFiles,
    l1_chain_config,
    l1_genesis,
    rollup_json,
    write_json,
)
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.settings import parse
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import EmbeddedEngine, EmbeddedL1, Program
from tests.support.processes.sent_transactions import send_deposit
from tests.support.servers.tcp_relay import LOOPBACK


class LocalChain:
    """The files of a chain in the folder of `leftovers`, with an L1 and an engine on it.

    `words` are those of `devnet` that concern its genesis."""

    def __init__(self, leftovers: Leftovers, *words: str) -> None:
        self._leftovers = leftovers
        self.files = NetworkFiles(leftovers.folder / "chain")
        self.files.root.mkdir()
        now = int(time.time())
        settings = parse(words)
        write_json(self.files.l1_genesis, l1_genesis(now))
        write_json(self.files.l2_genesis, l2_genesis(settings.forks, now))
        write_json(self.files.l1_chain, l1_chain_config())
        self.files.jwt.write_text(secrets.token_hex(32))
        self._l1_program = EmbeddedL1(leftovers, self.files.l1_genesis)
        self._engine_program = self._start_engine()
        self.l1, self.beacon = self._l1_program.url, self._l1_program.beacon
        programs = ((self._l1_program, "L1 "), (self._engine_program, "genesis "))
        l1_hash, l2_hash = (program.printed(line, "genesis") for program, line in programs)
        self.rollup = rollup_json(settings, l1_hash, l2_hash, now)
        write_json(self.files.rollup, self.rollup)

    def _start_engine(self) -> EmbeddedEngine:
        folder = str(self.files.root / "l2")
        engine = EmbeddedEngine(self._leftovers, self.files.l2_genesis, self.files.jwt, "--data-dir", folder)
        self.public, self.engine = engine.http, engine.auth
        return engine

    def restart_engine(self) -> None:
        """Start the engine again, at other ports, with its blocks and the secret that its file has now."""
        self._engine_program.stop()
        self._engine_program = self._start_engine()

    def write(self, name: str, text: str) -> Path:
        """Write a file beside those of the chain."""
        path = self.files.root / name
        path.write_text(text)
        return path

    def changed_rollup(self, name: str, **changes: Any) -> Path:
        """Write a rollup.json with other values."""
        return self.write(name, json.dumps(self.rollup | changes))

    def options(self, **changes: object) -> list[str]:
        """Return the flags of a node on this chain.

        In the names of changes `_` stands for `.` and `__` for `-`; None leaves a flag out."""
        flags: dict[str, object] = {
            "l1": self.l1,
            "l1.beacon": self.beacon,
            "l1.http-poll-interval": "200ms",
            "l1.epoch-poll-interval": "1s",
            "l2": self.engine,
            "l2.jwt-secret": self.files.jwt,
            "rollup.config": self.files.rollup,
            "rollup.l1-chain-config": self.files.l1_chain,
            "rpc.addr": LOOPBACK,
            "rpc.port": 0,
            "metrics.addr": LOOPBACK,
            "metrics.port": 0,
            "p2p.disable": "true",
            "workers": 1,
        }
        flags |= {name.replace("__", "-").replace("_", "."): value for name, value in changes.items()}
        return [f"--{name}={value}" for name, value in flags.items() if value is not None]

    def batcher(self, node: str, **flags: object) -> Program:
        """Start a program that posts the blocks of the node at that URL to L1."""
        key = self.write("batcher-key.txt", BATCHER_KEY.secret.hex())
        flags |= {"l1": self.l1, "engine": self.public, "node": node, "rollup": self.files.rollup, "key_file": key}
        words = (f"--{name.replace('_', '-')}={value}" for name, value in flags.items())
        return Program(self._leftovers, "rollup_node.tools.batcher", *words)

    def deposit(self) -> None:
        """Send a deposit to L1."""
        send_deposit(self.l1)

    def node(self, *words: str, **changes: object) -> Program:
        """Start a node with those options."""
        return Program(self._leftovers, "rollup_node", *self.options(**changes), *words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in (self._l1_program, self._engine_program):
            program.kill()
