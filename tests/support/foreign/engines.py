"""Execution engines that others wrote, without peers and on a genesis file of the local network: op-geth, op-reth."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.foreign.op_programs import ForeignProgram, find_program
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import call, wait_for
from tests.support.servers.loopback import free_port, own_address

ENGINES = ("op-geth", "op-reth")
START_SECONDS = 45.0
STOP_SECONDS = 20.0


class ForeignEngine(NamedTuple):
    """A running engine and its URLs."""

    program: ForeignProgram
    http: str
    auth: str


class EngineListeners(NamedTuple):
    """Where an engine listens, for everybody and with a JWT."""

    address: str
    http: int
    auth: int

    @property
    def urls(self) -> tuple[str, str]:
        """Both as URLs."""
        return f"http://{self.address}:{self.http}", f"http://{self.address}:{self.auth}"


@contextmanager
def foreign_engine(name: str, watch: Leftovers, genesis: Path, jwt: Path) -> Iterator[ForeignEngine]:
    """An engine with this genesis, which answers. Skips the test with the reason where it is not installed."""
    data, listen = watch.folder / f"{name}-{free_port()}", EngineListeners(own_address(), free_port(), free_port())
    with start_engine(name, watch, data, genesis, jwt, listen) as program:
        yield ForeignEngine(program, *listen.urls)
        assert program.running, program.err
        program.stop(STOP_SECONDS)


def start_engine(
    name: str, watch: Leftovers, data: Path, genesis: Path, jwt: Path, listen: EngineListeners
) -> ForeignProgram:
    """Starts an engine with this genesis, on the chain that it has in `data`, once it answers. Skips the test with the
    reason where it is not installed."""
    binary, folder = find_program(name), str(data)
    if name == "op-geth" and not data.exists():
        words = ["init", "--state.scheme=hash", "--datadir", folder, str(genesis)]
        with ForeignProgram(watch, binary, *words) as init:
            ended = init.wait_for_exit()
            assert ended.code == 0, ended
    flags = _geth_flags(folder) if name == "op-geth" else _reth_flags(folder, genesis)
    flags += ["--http", "--http.addr", listen.address, "--http.port", str(listen.http)]
    flags += ["--http.api", "eth,debug,net,web3,miner" if name == "op-geth" else "eth,debug,net,web3"]
    flags += ["--authrpc.addr", listen.address, "--authrpc.port", str(listen.auth), "--authrpc.jwtsecret", str(jwt)]
    program = ForeignProgram(watch, binary, *flags)

    def answers() -> bool:
        assert program.running, program.out[-3000:] + program.err[-3000:]
        return bool(call(listen.urls[0], "eth_chainId"))

    try:
        wait_for(answers, f"{name} answers", START_SECONDS)
    except BaseException:
        program.kill()
        raise
    return program


def _geth_flags(data: str) -> list[str]:
    flags = ["--datadir", data, "--syncmode", "full", "--gcmode", "archive", "--ipcdisable"]
    return [*flags, "--port", "0", "--nat", "none", "--netrestrict", "127.0.0.0/8", "--maxpeers", "0", "--nodiscover"]


def _reth_flags(data: str, genesis: Path) -> list[str]:
    flags = ["node", "--datadir", data, "--chain", str(genesis), "--ipcdisable", "--color", "never"]
    flags += ["--log.file.max-files", "0", "--engine.cross-block-cache-size", "64"]
    network = ["--addr", own_address(), "--port", str(free_port()), "--nat", "none", "--disable-discovery"]
    return [*flags, *network, "--max-outbound-peers", "0", "--max-inbound-peers", "0"]
