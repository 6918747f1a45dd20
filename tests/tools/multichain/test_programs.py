"""The programs of a local network of several chains, the messages between them, and a source that lies."""

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from rollup_node.stages.io.http.jsonrpc import JsonRpcClient
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.interop_messages import executing_message
from rollup_node.tools.multichain.lying_source import HEADS, LIES, ZERO, LyingSource
from rollup_node.tools.multichain.messages import KINDS, LOGGER, WRONG, Messages, execution_call
from rollup_node.tools.multichain.programs import ChainsPrograms, port_count
from rollup_node.tools.multichain.settings import parse
from tests.support.servers.http_listener import json_rpc_app, listening


def test_ports_are_as_many_as_are_used(tmp_path: Path) -> None:
    settings = parse(["--chains=3", "--supernodes=2", "--op-supernode=/bin/false"])
    numbers = iter(range(port_count(settings)))
    network = ChainsPrograms(settings, tmp_path, numbers, None)
    assert list(numbers) == []
    assert list(network.supernodes) == ["supernode", "supernode-2", "op-supernode"]
    assert [local.id for local in network.chains] == [901, 902, 903]


@pytest.mark.parametrize("has_own", [True, False])
def test_an_op_supernode_gets_the_dependency_set_by_the_options_that_it_has(tmp_path: Path, has_own: bool) -> None:
    binary = tmp_path / "op-supernode"
    option = "--dependency-set" if has_own else "--vn.all.interop.dependency-set"
    binary.write_text(f"#!/bin/sh\necho ' {option} value'\n")
    binary.chmod(0o755)
    settings = parse(["--chains=2", "--interop", f"--op-supernode={binary}"])
    network = ChainsPrograms(settings, tmp_path, count(20_000), None)
    network.activation = 1234
    words = network.op_supernode_command("op-supernode")
    assert words[0] == str(binary) and f"--vn.all.interop.dependency-set={network.dependency_set}" in words
    assert (f"--dependency-set={network.dependency_set}" in words) is has_own


TOPICS = (b"\x01" * 32, b"\x02" * 32)
LOG = {
    "address": to_hex(LOGGER),
    "topics": [to_hex(topic) for topic in TOPICS],
    "data": "0x0304",
    "blockNumber": "0x11",
    "logIndex": "0x2",
}


def test_what_is_wrong_takes_turns_among_what_is_possible() -> None:
    def wrongs(window: int, block_time: int, *kinds: str) -> tuple[str, ...]:
        return Messages({}, 1, 0, print, window, block_time, kinds)._wrongs

    assert wrongs(0, 0) == WRONG and wrongs(10, 1) == KINDS
    assert wrongs(10, 1, "cycle", "expired") == ("expired", "cycle") and wrongs(0, 1, "cycle") == ("cycle",)


@pytest.mark.parametrize("wrong", WRONG)
def test_an_invalid_message_is_one_that_is_nowhere(wrong: str) -> None:
    right, other = execution_call(901, LOG, 1000), execution_call(901, LOG, 1000, wrong)
    assert other != right
    assert executing_message((other[:32], other[32:64]), other[64:]) is not None


def status_at(number: int) -> dict[str, Any]:
    """Return a status whose local safe head has that number, the others lower ones."""
    heads = {
        name: {"hash": f"0x{number - back:064x}", "number": number - back, "timestamp": 1000 + 2 * (number - back)}
        for back, name in enumerate(HEADS)
    }
    return {**heads, "unsafe_l2": heads[HEADS[0]]}


async def test_what_is_told() -> None:
    truth, heard = status_at(20), dict[str, Any]()
    told = [status_at(9), *(truth for lie in LIES if lie != "an error")]
    methods = {"optimism_syncStatus": lambda: told.pop(0), "optimism_rollupConfig": lambda: {"l2_chain_id": 901}}
    async with listening(json_rpc_app(methods)) as (url,):
        source = LyingSource(url, 2)
        await source.start()
        client = JsonRpcClient(source.url, timeout=5.0)
        assert await client.call("optimism_syncStatus") == status_at(9)
        for lie in LIES:
            source.lie = lie
            heard[lie] = None if lie == "an error" else await client.call("optimism_syncStatus")
        await client.close()
        await source.close()
    block = heard["a block that nobody has"]["safe_l2"]
    assert (block["number"], block["timestamp"], block["parentHash"]) == (21, 1042, truth["local_safe_l2"]["hash"])
    assert all(heard["other blocks"][name]["hash"] != truth[name]["hash"] for name in HEADS)
    assert all(heard["heads of zeros"][name]["hash"] == ZERO for name in HEADS)
    order = heard["heads in another order"]
    assert order["safe_l2"]["number"] > order["local_safe_l2"]["number"]
    assert heard["the first status again"] == status_at(9) and heard["no status"] is None
