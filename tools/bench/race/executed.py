"""Courses that a real engine executes while they are made, and that engine, fresh for each run."""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.forks.table import FORK_NAMES
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.tools.batcher.driver import Fees, Key, dynamic_fee_transaction
from rollup_node.tools.bench.race.l2_blocks import SELECTOR
from rollup_node.tools.bench.race.plain_client import EngineError, PlainClient
from rollup_node.tools.bench.synthetic_chain import GENESIS_TIME
from rollup_node.tools.devnet.files import ETHER
from rollup_node.tools.devnet.l2_genesis import l2_genesis
from rollup_node.tools.devnet.predeploys.alloc import TOKEN

FIRST_FORK_AFTER = "isthmus"
"""Of an executed course: an engine of any age that knows Holocene executes it."""

SENDERS = 40
TRANSFER_GAS, FEES = 100_000, Fees(tip=1, cap=10**11)
_BALANCES_SLOT = (1).to_bytes(32, "big")
START_SECONDS, STOP_SECONDS = 60.0, 30.0
LOG_TAIL = 1000


def genesis_file(config: RollupConfig) -> dict[str, Any]:
    """Return the genesis of an executed course in geth's format: a token, and senders with funds of both kinds.

    The forks are those of the config."""
    forks = {name: max(0, time - GENESIS_TIME) for name, time in config.fork_times.items() if name in FORK_NAMES}
    result = l2_genesis(forks, GENESIS_TIME)
    result["gasLimit"] = hex(config.genesis.system_config.gas_limit)
    alloc, funds = result["alloc"], hex(10_000 * ETHER)
    alloc |= {to_hex(key.address): {"balance": funds} for key in _senders()}
    slots = [keccak256(key.address.rjust(32, b"\0") + _BALANCES_SLOT) for key in _senders()]
    alloc[to_hex(TOKEN)]["storage"] = {to_hex(slot): to_hex((10**30).to_bytes(32, "big")) for slot in slots}
    return result


class Transfers:
    """Signed transfers of the token, by the senders in turn."""

    def __init__(self, chain_id: int) -> None:
        self._chain_id, self._count = chain_id, 0

    def __call__(self, number: int, count: int) -> tuple[bytes, ...]:
        """Return those of the block with that number, each to an account of its own."""
        return tuple(self._next(number, index) for index in range(count))

    def _next(self, number: int, index: int) -> bytes:
        nonce, sender = divmod(self._count, SENDERS)
        self._count += 1
        receiver = keccak256(f"receiver {number} {index}".encode())[-20:]
        data = SELECTOR + receiver.rjust(32, b"\0") + (10**15 + self._count).to_bytes(32, "big")
        key = _senders()[sender]
        return dynamic_fee_transaction(key, self._chain_id, nonce, TOKEN, 0, data, TRANSFER_GAS, FEES)


@cache
def _senders() -> list[Key]:
    return [Key(keccak256(f"sender {number}".encode())) for number in range(SENDERS)]


class FreshEngine:
    """A real engine at `url`, which `command` starts with an empty folder as its working directory.

    The shell runs the command, which finds the paths of genesis file and JWT secret as GENESIS and JWT in its
    environment. Without a command the engine at `url` is started by others."""

    def __init__(self, url: str, command: str | None) -> None:
        self.url, self._command = url, command

    @contextmanager
    def running(self, course: Path) -> Iterator[int | None]:
        """Yield the id of the engine's process, once it has the genesis alone. Raises EngineError."""
        if self._command is None:
            self._wait(None, None)
            yield None
            return
        environment = {**os.environ, "GENESIS": str(course / "genesis.json"), "JWT": str(course / "jwt.txt")}
        with tempfile.TemporaryDirectory(prefix="race-engine-") as folder, tempfile.TemporaryFile() as log:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self._command],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._wait(process, log.fileno())
                yield process.pid
            finally:
                _stop(process)

    def _wait(self, process: "subprocess.Popen[bytes] | None", log: int | None) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                with closing(PlainClient(self.url)) as client:
                    client.genesis()
                if process is None or process.poll() is None:
                    return
                reason = "another program answers there"
            except (OSError, orjson.JSONDecodeError) as error:
                reason = str(error)
            if process is not None and process.poll() is not None:
                raise EngineError(f"the engine's command has ended with code {process.returncode}: {_tail(log)}")
            if time.monotonic() > until:
                raise EngineError(f"no engine answers at {self.url}: {reason}; {_tail(log)}")
            time.sleep(0.1)


def _tail(log: int | None) -> str:
    if log is None:
        return "start one there with the course's genesis.json and jwt.txt"
    size = os.fstat(log).st_size
    return os.pread(log, LOG_TAIL, max(0, size - LOG_TAIL)).decode(errors="replace")


def _stop(process: "subprocess.Popen[bytes]") -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(STOP_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
