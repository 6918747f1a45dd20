"""Execution engines that others wrote, on a genesis file of the local network: op-geth, op-reth.

They look for no peers, and accept those that a test gives them at most."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.foreign.op_programs import ForeignProgram, find_program
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, call, wait_for
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


def prepared(leftovers: Leftovers, *flags: str) -> tuple[Path, Path]:
    """Return the genesis file and the secret of a network that is not started yet."""
    folder = leftovers.folder / "net"
    with Program(leftovers, "rollup_node", "devnet", "--prepare", "--data-dir", str(folder), *flags) as prepare:
        prepare.wait_for_exit().lines()
    return folder / "l2-genesis.json", folder / "jwt.txt"


def connect_engines(one: ForeignEngine, other: ForeignEngine) -> None:
    """Make two engines that have `peers` peers of each other."""
    enode = call(other.http, "admin_nodeInfo")["enode"]
    assert enode.partition("@")[2].startswith(own_address()), enode
    assert call(one.http, "admin_addPeer", enode)
    wait_for(lambda: call(one.http, "admin_peers"), "the engines are peers")


@contextmanager
def foreign_engine(name: str, watch: Leftovers, genesis: Path, jwt: Path, *, peers: int = 0) -> Iterator[ForeignEngine]:
    """Yield an engine with this genesis, which answers, and accepts so many peers on loopback.

    Skips the test with the reason where it is not installed."""
    data, listen = watch.folder / f"{name}-{free_port()}", EngineListeners(own_address(), free_port(), free_port())
    with start_engine(name, watch, data, genesis, jwt, listen, peers) as program:
        yield ForeignEngine(program, *listen.urls)
        assert program.running, program.err
        program.stop(STOP_SECONDS)


def start_engine(
    name: str, watch: Leftovers, data: Path, genesis: Path, jwt: Path, listen: EngineListeners, peers: int = 0
) -> ForeignProgram:
    """Start an engine with this genesis, on the chain that it has in `data`, once it answers.

    Skips the test with the reason where it is not installed."""
    binary, folder = find_program(name), str(data)
    if name == "op-geth" and not data.exists():
        words = ["init", "--state.scheme=hash", "--datadir", folder, str(genesis)]
        with ForeignProgram(watch, binary, *words) as init:
            ended = init.wait_for_exit()
            assert ended.code == 0, ended
    flags = _geth_flags(folder, peers) if name == "op-geth" else _reth_flags(folder, genesis, peers)
    flags += ["--http", "--http.addr", listen.address, "--http.port", str(listen.http)]
    modules = "eth,debug,net,web3,miner" if name == "op-geth" else "eth,debug,net,web3"
    flags += ["--http.api", f"{modules},admin" if peers else modules]
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


def _geth_flags(data: str, peers: int) -> list[str]:
    """Return the address on which it listens for peers has no flag."""
    config = Path(f"{data}.toml")
    config.write_text(
        f'[Node.P2P]\nListenAddr = "{own_address()}:{free_port()}"\nNoDiscovery = true\nBootstrapNodes = []\n'
        "BootstrapNodesV5 = []\n"
    )
    flags = ["--config", str(config), "--datadir", data, "--syncmode", "full", "--gcmode", "archive", "--ipcdisable"]
    return [*flags, "--nat", f"extip:{own_address()}", "--netrestrict", "127.0.0.0/8", "--maxpeers", str(peers)]


def _reth_flags(data: str, genesis: Path, peers: int) -> list[str]:
    flags = ["node", "--datadir", data, "--chain", str(genesis), "--ipcdisable", "--color", "never"]
    flags += ["--log.file.max-files", "0", "--engine.cross-block-cache-size", "64"]
    nat = f"extip:{own_address()}" if peers else "none"
    network = ["--addr", own_address(), "--port", str(free_port()), "--nat", nat, "--disable-discovery"]
    return [*flags, *network, "--max-outbound-peers", str(peers), "--max-inbound-peers", str(peers)]
