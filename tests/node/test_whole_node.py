"""A whole node as a program with real endpoints: what ends its start, each with one clear line, and what it lives
through when an endpoint goes away later."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.parts import LOOPBACK, Parts, Relay
from tests.support.programs import Program, is_told, reasons, wait_for

END_SECONDS = 50.0
OTHER_HASH = "0x" + "ab" * 32


@pytest.fixture(scope="module")
def parts(module_leftovers: Any) -> Iterator[Parts]:
    with Parts(module_leftovers) as found:
        yield found


def port_of(node: Program, server: str) -> int:
    """Where a server of the node listens, as its log says."""
    line = node.say(f'"{server} server is listening"')
    return int(dict(word.split("=", 1) for word in line.split() if "=" in word)["port"])


def not_json(parts: Parts) -> dict[str, Any]:
    return {"rollup_config": parts.write("text.json", "not JSON at all {")}


def truncated(parts: Parts) -> dict[str, Any]:
    return {"rollup_config": parts.write("half.json", json.dumps(parts.rollup)[:400])}


def another_l1_chain(parts: Parts) -> dict[str, Any]:
    config = json.loads(parts.places.l1_chain.read_text()) | {"chainId": 905}
    return {
        "rollup_config": parts.changed_rollup("l1-id.json", l1_chain_id=905),
        "rollup_l1__chain__config": parts.write("l1-chain.json", json.dumps(config)),
    }


BAD_INPUT: dict[str, tuple[Callable[[Parts], dict[str, Any]], str]] = {
    "wrong JWT": (
        lambda parts: {"l2_jwt__secret": parts.write("other-jwt.txt", "11" * 32)},
        "the execution engine refuses our JWT",
    ),
    "malformed JWT": (
        lambda parts: {"l2_jwt__secret": parts.write("bad-jwt.txt", "secret")},
        "bad-jwt.txt is malformed: expected 32 bytes",
    ),
    "wrong L1 chain id": (another_l1_chain, "incorrect L1 RPC chain id 900, expected 905"),
    "wrong L2 chain id": (
        lambda parts: {"rollup_config": parts.changed_rollup("l2-id.json", l2_chain_id=902)},
        "incorrect L2 RPC chain id 901, expected 902",
    ),
    "another L1": (
        lambda parts: {"rollup_config": parts.changed_rollup("l1-genesis-hash.json", l1={"hash": OTHER_HASH})},
        "incorrect L1 genesis block hash 0x",
    ),
    "another L2": (
        lambda parts: {"rollup_config": parts.changed_rollup("l2-genesis-hash.json", l2={"hash": OTHER_HASH})},
        "incorrect L2 genesis block hash 0x",
    ),
    "no beacon node": (
        lambda parts: {"l1_beacon": parts.public},
        "failed to check L1 Beacon API version: the L1 beacon node cannot be used",
    ),
    "the engine without its Engine API": (
        lambda parts: {"l2": parts.beacon},
        "the execution engine cannot be used",
    ),
    "no rollup.json": (
        lambda parts: {"rollup_config": parts.places.root / "absent.json"},
        "absent.json: No such file or directory",
    ),
    "a folder as rollup.json": (
        lambda parts: {"rollup_config": parts.places.root},
        "Is a directory",
    ),
    "no JSON": (not_json, "rollup config error: "),
    "half a rollup.json": (truncated, "rollup config error: "),
    "a wrong field": (
        lambda parts: {"rollup_config": parts.changed_rollup("field.json", block_time="two")},
        "rollup config error: ",
    ),
    "an unknown network": (
        lambda parts: {"network": "op-sepolja", "rollup_config": None},
        "op-sepolja",
    ),
    "a runtime directory that is a file": (
        lambda parts: {"runtime_dir": parts.places.rollup},
        "is not a directory",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_ends_the_start_with_one_line(parts: Parts, case: str) -> None:
    changes, expected = BAD_INPUT[case]
    with parts.node(**changes(parts)) as node:
        line = node.end(END_SECONDS).one_line()
    assert line.startswith("rollup-node: ") and expected in line


def test_an_unknown_flag_ends_the_start_with_one_line(parts: Parts) -> None:
    with parts.node("--l1.becon=http://127.0.0.1:1") as node:
        assert node.end(END_SECONDS).one_line() == "rollup-node: unknown flag --l1.becon; did you mean --l1.beacon?"


@pytest.mark.parametrize("server", ["rpc", "metrics"])
def test_a_port_in_use_ends_the_start_with_one_line(parts: Parts, server: str) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        changes = {f"{server}_port": port, "metrics_enabled": "true"}
        with parts.node(**changes) as node:
            line = node.end(END_SECONDS).one_line()
    assert line.startswith(f"rollup-node: port {port} is in use on {LOOPBACK}: stop the program that uses it, or give")


def test_a_runtime_directory_in_use_ends_the_start_with_one_line(parts: Parts) -> None:
    directory = parts.places.root / "run"
    with parts.node(runtime_dir=directory) as first:
        first.say('"node is ready"')
        with parts.node(runtime_dir=directory) as second:
            line = second.end(END_SECONDS).one_line()
        assert f"directory {directory} is in use by another node (pid {first.pid})" in line
        assert first.running and first.stop().code == 0
    assert not directory.exists()


def test_endpoints_that_go_away_are_retried_and_told(parts: Parts) -> None:
    l1, engine = (Relay(int(url.rpartition(":")[2])) for url in (parts.l1, parts.engine))
    with l1, engine, parts.node(l1=l1.url, l2=engine.url) as node:
        rpc = f"http://{LOOPBACK}:{port_of(node, 'rpc')}"

        def wait_told(process: str, relay: Relay) -> None:
            text = f"{relay.name}: cannot connect (Connection refused)"
            wait_for(lambda: is_told(rpc, process, text), f"{process} to tell that {text}")

        def wait_ready() -> None:
            wait_for(lambda: not reasons(rpc), "the node to be ready")

        wait_ready()
        l1.cut()
        wait_told("l1", l1)
        l1.restore()
        wait_ready()
        engine.cut()
        wait_told("engine", engine)
        l1.cut()
        wait_told("l1", l1)
        for relay in (l1, engine):
            relay.restore()
        wait_ready()
        ended = node.stop()
    assert (ended.code, ended.err) == (0, "")
    assert "Traceback" not in ended.out and "process died" not in ended.out


def test_a_node_waits_for_endpoints_that_come_up_late_and_leaves_no_file(parts: Parts, module_leftovers: Any) -> None:
    port = int(parts.l1.rpartition(":")[2])
    with Relay(port) as relay:
        relay.cut()
        with parts.node(l1=relay.url) as node:
            node.say("L1 does not answer, trying again")
            relay.restore()
            node.say('"node is ready"')
            assert [path.name[:12] for path in module_leftovers.temporary.iterdir()] == ["rollup-node-"]
            assert node.stop().code == 0
    assert list(module_leftovers.temporary.iterdir()) == []
