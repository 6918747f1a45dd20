"""A node's surroundings as programs: an embedded L1 and an embedded engine; and TCP relays that can be cut."""

import json
import secrets
import selectors
import socket
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rollup_node.tools.devnet.files import NetworkFiles, l1_chain_config, l1_genesis, rollup_json, write_json
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.settings import parse
from tests.support.leftovers import Leftovers
from tests.support.programs import Program

LOOPBACK = "127.0.0.1"


class Relay:
    """A TCP relay to a port; while it is cut, connections are refused and open ones are closed."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._selector = selectors.DefaultSelector()
        self._other: dict[socket.socket, socket.socket] = {}
        self._listener: socket.socket | None = None
        self._wake, self._woken = socket.socketpair()
        self._listening, self._ending = True, False
        self._done = threading.Event()
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._place.bind((LOOPBACK, 0))
        self.name = f"{LOOPBACK}:{self._place.getsockname()[1]}"
        self.url = f"http://{self.name}"
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._run, name="relay")
        self._thread.start()
        self.restore()

    def cut(self) -> None:
        """Closes all connections and refuses new ones."""
        self._switch(False)

    def restore(self) -> None:
        """Accepts connections again."""
        self._switch(True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending = True
        self._switch(False)
        self._thread.join(30)
        for each in (self._place, self._wake, self._woken):
            each.close()
        self._selector.close()

    def _switch(self, listening: bool) -> None:
        self._listening = listening
        self._done.clear()
        self._wake.send(b".")
        assert self._done.wait(30)

    def _run(self) -> None:
        while not self._ending:
            for key, _ in self._selector.select():
                ready = key.fileobj
                assert isinstance(ready, socket.socket)
                if ready is self._woken:
                    ready.recv(1)
                    self._listen() if self._listening else self._close()
                    self._done.set()
                elif ready is self._listener:
                    self._accept()
                elif ready in self._other:
                    self._forward(ready)

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server(self._place.getsockname())
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _close(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for each in list(self._other):
            self._end(each)

    def _accept(self) -> None:
        assert self._listener is not None
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection((LOOPBACK, self._target), 20)
        except OSError:
            near.close()
            return
        for one, other in ((near, far), (far, near)):
            self._other[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, ready: socket.socket) -> None:
        try:
            data = ready.recv(1 << 16)
            if data:
                self._other[ready].sendall(data)
                return
        except OSError:
            pass
        self._end(ready)

    def _end(self, one: socket.socket) -> None:
        other = self._other.pop(one, None)
        if other is not None:
            self._selector.unregister(one)
            one.close()
            self._end(other)


class NodeParts:
    """An L1 and an engine on a new chain whose files are in the folder of `watch`, and nodes that run on them."""

    def __init__(self, watch: Leftovers) -> None:
        self._watch = watch
        self.files = NetworkFiles(watch.folder / "parts")
        self.files.root.mkdir()
        now = int(time.time())
        settings = parse(())
        write_json(self.files.l1_genesis, l1_genesis(now))
        write_json(self.files.l2_genesis, l2_genesis(settings.forks, now))
        write_json(self.files.l1_chain, l1_chain_config())
        self.files.jwt.write_text(secrets.token_hex(32))
        words = ("--genesis", str(self.files.l1_genesis), "--slot-time", "1")
        self.l1_program = Program(watch, "rollup_node.tools.devnet.l1", *words)
        self.engine_program = self.start_engine()
        self.l1, self.beacon, l1_hash = self._printed(self.l1_program, "L1 ", "L1", "beacon", "genesis")
        self.public, self.engine, l2_hash = self._printed(self.engine_program, "genesis ", "http", "auth", "genesis")
        self.rollup = rollup_json(settings, l1_hash, l2_hash, now)
        write_json(self.files.rollup, self.rollup)

    @staticmethod
    def _printed(program: Program, line: str, *names: str) -> list[str]:
        """The words after these names in a line that a program prints."""
        words = program.wait_line(line).split()
        return [words[words.index(name) + 1] for name in names]

    def start_engine(self, auth_port: int = 0) -> Program:
        """Starts the engine, which continues its chain."""
        paths = ("--genesis", str(self.files.l2_genesis), "--jwt", str(self.files.jwt))
        data = ("--data-dir", str(self.files.root / "l2"))
        ports = ("--http", "0", "--auth", str(auth_port))
        return Program(self._watch, "rollup_node.tools.devnet.engine", *paths, *data, *ports)

    def write(self, name: str, text: str) -> Path:
        """Writes a file beside those of the chain; its path."""
        path = self.files.root / name
        path.write_text(text)
        return path

    def changed_rollup(self, name: str, **changes: Any) -> Path:
        """Writes a rollup.json with changed values; `l1` and `l2` change the genesis blocks."""
        rollup = json.loads(json.dumps(self.rollup))
        for layer in ("l1", "l2"):
            rollup["genesis"][layer] |= changes.pop(layer, {})
        return self.write(name, json.dumps(rollup | changes))

    def options(self, **changes: Any) -> list[str]:
        """The flags of a node; in names of changes `_` stands for `.` and `__` for `-`, and None omits a flag."""
        flags: dict[str, Any] = {
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

    def node(self, *words: str, **changes: Any) -> Program:
        """Starts a node with these flags and changes of its options."""
        return Program(self._watch, "rollup_node.node", *self.options(**changes), *words)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in (self.l1_program, self.engine_program):
            program.kill()
