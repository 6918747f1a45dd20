"""L1 reorgs during a run of the local network, with batches in the removed blocks.

Both nodes follow and end with equal output roots."""

import json
import os
import signal
from functools import partial
from typing import Any

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, call_batch

DEPTH = 3


def inbox_transactions(net: Devnet, first: int, last: int) -> list[int]:
    """Return the number of transactions to the batch inbox in each of these L1 blocks."""
    inbox = json.loads((net.root / "rollup.json").read_text())["batch_inbox_address"]
    numbers = range(first, last + 1)
    blocks = call_batch(net.network["l1"], *(("eth_getBlockByNumber", hex(number), True) for number in numbers))
    return [sum(entry["to"] == inbox for entry in block["transactions"]) for block in blocks]


def l1_block(net: Devnet, number: int | str, full: bool = False) -> Any:
    name = number if isinstance(number, str) else hex(number)
    return call(net.network["l1"], "eth_getBlockByNumber", name, full)


def l1_head(net: Devnet) -> int:
    return int(call(net.network["l1"], "eth_blockNumber"), 16)


def wait_for_batches(net: Devnet) -> None:
    """Wait until each of the last L1 blocks has a batch."""

    def have_batches() -> bool:
        head = l1_head(net)
        return head > DEPTH and all(inbox_transactions(net, head - DEPTH + 1, head))

    net.wait(have_batches, "batch in each of the last L1 blocks")


def reorg(net: Devnet) -> int:
    """Replace the last L1 blocks; the number of the first replaced one.

    L1 mines no block between the calls of a batch."""
    url = net.network["l1"]
    block, _ = call_batch(url, ("eth_getBlockByNumber", "latest", False), ("dev_reorg", DEPTH))
    for _ in range(DEPTH):
        assert l1_block(net, block["number"])["hash"] != block["hash"], "the reorg was less deep than requested"
        first, block = int(block["number"], 16), call(url, "eth_getBlockByHash", block["parentHash"], False)
    return first


def follows_reorg(net: Devnet, name: str, first: int) -> None:
    """Wait until a node's safe origin is past the replaced blocks, which are those from `first` on."""
    beyond = first + DEPTH
    net.wait(
        lambda: net.sync_status(name)["safe_l2"]["l1origin"]["number"] >= beyond, f"safe origin {beyond} of the {name}"
    )
    assert_on_l1(net, name)


def assert_on_l1(net: Devnet, name: str) -> None:
    """Assert that the origins of all safe blocks of a node are on the current L1 chain."""
    url = net.node(name)["rpc"]
    numbers = range(1, net.safe_number(name) + 1)
    outputs = call_batch(url, *(("optimism_outputAtBlock", hex(number)) for number in numbers))
    origins = [output["blockRef"]["l1origin"] for output in outputs]
    calls = (("eth_getBlockByNumber", hex(origin["number"]), False) for origin in origins)
    blocks = call_batch(net.network["l1"], *calls)
    assert [block["hash"] for block in blocks] == [origin["hash"] for origin in origins], name


@pytest.mark.fault("F9")
def test_reorgs_of_blocks_with_batches(leftovers: Leftovers) -> None:
    with Devnet(leftovers, *CALLDATA) as net:
        net.wait_for_first_safe()
        wait_for_batches(net)
        first = reorg(net)
        for name in net.nodes:
            follows_reorg(net, name, first)
        wait_for_batches(net)
        os.kill(net.process_entry("verifier", "l1")["pid"], signal.SIGKILL)
        os.kill(net.process_entry("sequencer", "engine")["pid"], signal.SIGKILL)
        first = reorg(net)
        os.kill(net.process_entry("verifier", "derivation")["pid"], signal.SIGKILL)
        for name in net.nodes:
            follows_reorg(net, name, first)
            net.wait(partial(net.is_ready, name), f"ready {name}")
            assert "a bug ends" not in net.log(name), net.logs(60)
        net.finish()
