"""A whole node with real endpoints: errors that end its start, each with one line, and endpoints that are unreachable
for a while."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from rollup_node.node import cli
from tests.support.chains.local_chain import LocalChain
from tests.support.processes.checked_start import without_supervisor
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Program, call, reports_problem, unready_reasons, wait_for
from tests.support.servers.tcp_relay import LOOPBACK, TcpRelay

END_SECONDS = 50.0


@pytest.fixture(scope="module")
def chain(module_leftovers: Leftovers) -> Iterator[LocalChain]:
    with LocalChain(module_leftovers) as local_chain:
        yield local_chain


def test_invalid_input_ends_the_program_with_one_line(chain: LocalChain) -> None:
    with chain.node(l2_jwt__secret=chain.write("other-jwt.txt", "11" * 32)) as node:
        line = node.wait_for_exit(END_SECONDS).error_line()
    assert line.startswith("rollup-node: the execution engine rejects our JWT")


@pytest.fixture
def error_of_start(chain: LocalChain, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the line with which a start ends that does all that the program does, but has no supervisor."""

    def run(**changes: object) -> str:
        with without_supervisor():
            assert cli.main(chain.options(**changes)) == 1
        err = capsys.readouterr().err
        assert err.startswith("rollup-node: ") and err.count("\n") == 1 and err.endswith("\n")
        return err

    return run


@pytest.mark.option("l1.beacon")
def test_invalid_input_ends_the_start_with_one_line(chain: LocalChain, error_of_start: Callable[..., str]) -> None:
    line = error_of_start(**{"l1.beacon": chain.public})
    assert "failed to check L1 Beacon API version: the L1 beacon node cannot be used" in line


@pytest.mark.option("rpc.addr", "rpc.port")
@pytest.mark.parametrize("option", ["rpc.port", "metrics.port"])
def test_a_port_in_use_ends_the_start_with_one_line(error_of_start: Callable[..., str], option: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        line = error_of_start(**{option: port, "rpc.addr": LOOPBACK, "metrics.enabled": "true"})
    assert line.startswith(f"rollup-node: port {port} is in use on {LOOPBACK}: stop the program that uses it, or give")


def test_the_last_block_before_a_foreign_fork_ends_the_node(chain: LocalChain, module_leftovers: Leftovers) -> None:
    """Without a batcher, empty blocks are derived as soon as their sequencing window is over [LFT1 to LFT7]."""
    last = 3
    fork = chain.rollup["genesis"]["l2_time"] + chain.rollup["block_time"] * last + 1
    config = chain.changed_rollup("leaves.json", seq_window_size=2)
    options = chain.options(rollup_config=config, metrics_enabled=None)
    with Program(module_leftovers, "tests.support.processes.leaving_node", str(fork), *options) as node:
        start = node.wait_for_line("it is derived up to the last block before")
        ended = node.wait_for_exit(END_SECONDS)
    assert "code=NETWORK-LEFT fork=Somefork" in start and f"last_block={last}" in start
    assert ended.code == 76
    assert ended.err.startswith(
        "rollup-node: process engine reached the last block of a network that left the OP Stack (NETWORK-LEFT):"
        f" the safe head is block {last}, and"
    )
    assert ended.err.count("\n") == 1
    (line,) = [line for line in ended.out.splitlines() if "the network left the OP Stack's rules\"" in line]
    assert "code=NETWORK-LEFT" in line and f"the safe head is block {last}, and block {last} is the last" in line
    heads = [call(chain.public, "eth_getBlockByNumber", label, False)["number"] for label in ("latest", "safe")]
    assert heads == [hex(last)] * 2


class RunningNode(NamedTuple):
    """A node behind relays to its endpoints."""

    program: Program
    directory: Path
    l1: TcpRelay
    engine: TcpRelay


@pytest.fixture(scope="module")
def running(chain: LocalChain) -> Iterator[RunningNode]:
    """Yield a node that was started while L1 was unreachable."""
    l1, engine = map(TcpRelay, (chain.l1, chain.engine))
    directory = chain.files.root / "run"
    with l1, engine:
        l1.cut()
        with chain.node(l1=l1.url, l2=engine.url, runtime_dir=directory) as node:
            node.wait_for_line("L1 does not respond, retrying")
            l1.restore()
            yield RunningNode(node, directory, l1, engine)


def test_a_node_waits_for_endpoints_that_start_late(running: RunningNode) -> None:
    running.program.wait_for_line(' processes are ready"')
    assert running.directory.exists()


@pytest.mark.option("l1", "l2")
def test_unreachable_endpoints_are_retried_and_reported(running: RunningNode) -> None:
    node, directory, l1, engine = running
    rpc = wait_for((directory / "rpc.url").read_text, "the URL of the RPC server")

    def wait_for_problem(process: str, relay: TcpRelay) -> None:
        text = f"{relay.name}: cannot connect (Connection refused)"
        wait_for(lambda: reports_problem(rpc, process, text), f"{process} reports {text}")

    def wait_ready() -> None:
        wait_for(lambda: not unready_reasons(rpc), "the node is ready")

    wait_ready()
    l1.cut()
    wait_for_problem("l1", l1)
    l1.restore()
    wait_ready()
    engine.cut()
    wait_for_problem("engine", engine)
    l1.cut()
    wait_for_problem("l1", l1)
    for relay in (l1, engine):
        relay.restore()
    wait_ready()
    assert "Traceback" not in node.out and "process died" not in node.out


def test_a_node_that_is_stopped_leaves_no_file(running: RunningNode, module_leftovers: Leftovers) -> None:
    running.program.wait_for_line(' processes are ready"')
    ended = running.program.stop()
    assert (ended.code, ended.err) == (0, "")
    assert not running.directory.exists() and list(module_leftovers.temporary.iterdir()) == []
