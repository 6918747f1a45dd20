"""L1 is reorganised while the local network runs, with batches in the blocks that go; both nodes follow it and end with
equal output roots."""

import json
import os
import signal
from typing import Any

from tests.support.programs import Devnet, call, call_batch

DEPTH = 3


def inbox_transactions(net: Devnet, first: int, last: int) -> list[int]:
    """How many transactions to the batch inbox each of these L1 blocks has."""
    inbox = json.loads((net.root / "rollup.json").read_text())["batch_inbox_address"]
    blocks = [l1_block(net, number, True) for number in range(first, last + 1)]
    return [sum(entry["to"] == inbox for entry in block["transactions"]) for block in blocks]


def l1_block(net: Devnet, number: int | str, full: bool = False) -> Any:
    name = number if isinstance(number, str) else hex(number)
    return call(net.network["l1"], "eth_getBlockByNumber", name, full)


def l1_head(net: Devnet) -> int:
    return int(call(net.network["l1"], "eth_blockNumber"), 16)


def wait_for_batches(net: Devnet) -> None:
    """Waits until each of the last L1 blocks holds a batch."""

    def there() -> bool:
        head = l1_head(net)
        return head > DEPTH and all(inbox_transactions(net, head - DEPTH + 1, head))

    net.wait(there, "a batch in each of the last L1 blocks")


def reorganise(net: Devnet) -> int:
    """Replaces the last L1 blocks; the number of the first that is another now. L1 makes no block between the
    calls of a batch."""
    url = net.network["l1"]
    block, _ = call_batch(url, ("eth_getBlockByNumber", "latest", False), ("dev_reorg", DEPTH))
    for _ in range(DEPTH):
        assert l1_block(net, block["number"])["hash"] != block["hash"], "L1 was not reorganised as deep as asked for"
        first, block = int(block["number"], 16), call(url, "eth_getBlockByHash", block["parentHash"], False)
    return first


def assert_on_l1(net: Devnet, name: str) -> None:
    """Each safe block of a node has its origin in the L1 chain of now."""
    url = net.node(name)["rpc"]
    for number in range(1, net.safe_number(name) + 1):
        origin = call(url, "optimism_outputAtBlock", hex(number))["blockRef"]["l1origin"]
        assert l1_block(net, origin["number"])["hash"] == origin["hash"], (name, number)


def test_reorgs_with_batches_in_them(leftovers: Any) -> None:
    with Devnet(leftovers) as net:
        net.wait_for_first_safe()
        wait_for_batches(net)
        first = reorganise(net)
        beyond = first + DEPTH + 2
        for name in net.nodes:
            net.wait(lambda n=name: net.sync_status(n)["safe_l2"]["l1origin"]["number"] >= beyond, f"{name} to go on")
            assert_on_l1(net, name)
        wait_for_batches(net)
        os.kill(net.process_entry("verifier", "l1")["pid"], signal.SIGKILL)
        os.kill(net.process_entry("sequencer", "engine")["pid"], signal.SIGKILL)
        first = reorganise(net)
        os.kill(net.process_entry("verifier", "derivation")["pid"], signal.SIGKILL)
        beyond = first + DEPTH + 2
        for name in net.nodes:
            net.wait(lambda n=name: net.sync_status(n)["safe_l2"]["l1origin"]["number"] >= beyond, f"{name} to go on")
            assert_on_l1(net, name)
            net.wait(lambda n=name: net.is_ready(n), f"{name} to be ready")
            assert "a bug ends" not in net.log(name), net.logs(60)
        net.finish()
