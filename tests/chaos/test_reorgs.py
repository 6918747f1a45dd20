"""L1 enters Gloas during a run of the local network, with batches in blobs, and reorganises, with batches in the
removed blocks. Processes are killed meanwhile; both nodes follow and end with equal output roots."""

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, call, call_batch, http_get

GLOAS = 18
"""Seconds after L1's genesis."""
DEPTH = 3


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network for all tests of the module; it ends with equal output roots."""
    with Devnet(module_leftovers, "--l1-forks", f"gloas={GLOAS}") as running:
        running.wait_for_first_safe()
        yield running
        for name in running.nodes:
            assert "a bug ends" not in running.log(name), running.logs(60)
        running.finish()


def l1_blocks(net: Devnet) -> list[dict[str, Any]]:
    """All blocks of L1 from block 1 on."""
    head = int(call(net.network["l1"], "eth_blockNumber"), 16)
    return call_batch(net.network["l1"], *(("eth_getBlockByNumber", hex(n), True) for n in range(1, head + 1)))


def is_in_gloas(block: dict[str, Any]) -> bool:
    return "slotNumber" in block


def beacon_block(net: Devnet, slot: int) -> dict[str, Any]:
    """Return the body of the beacon block of a slot."""
    status, text = http_get(f"{net.network['beacon']}/eth/v2/beacon/blocks/{slot}")
    assert status == 200, text
    body: dict[str, Any] = json.loads(text)["data"]["message"]["body"]
    return body


def follows(net: Devnet, name: str, number: int) -> bool:
    """Whether a node's safe head has an origin of at least this number that is on L1."""
    origin = net.sync_status(name)["safe_l2"]["l1origin"]
    block = call(net.network["l1"], "eth_getBlockByNumber", hex(origin["number"]), False)
    return bool(origin["number"] >= number and block["hash"] == origin["hash"])


def listed_batches(leftovers: Leftovers, net: Devnet, last: int) -> list[dict[str, Any]]:
    """Return the batches of all L1 blocks so far, read by a program of its own."""
    files = [f"--rollup.config={net.root}/rollup.json", f"--rollup.l1-chain-config={net.root}/l1-chain-config.json"]
    endpoints = [f"--l1={net.network['l1']}", f"--l1.beacon={net.network['beacon']}"]
    words = [*endpoints, *files, "--from-l1=1", f"--to-l1={last}", "--json"]
    with Program(leftovers, "rollup_node", "batches", *words) as command:
        return [json.loads(line) for line in command.wait_for_exit().lines()]


def test_l1_enters_gloas_while_processes_die_and_in_a_reorg(net: Devnet, module_leftovers: Leftovers) -> None:
    assert not is_in_gloas(l1_blocks(net)[0])
    net.wait(lambda: is_in_gloas(l1_blocks(net)[-1]), "L1 in Gloas")
    before = [net.process_entry("verifier", role) for role in ("l1", "blobs")]
    for entry in before:
        os.kill(entry["pid"], signal.SIGKILL)
    call(net.network["l1"], "dev_reorg", DEPTH)
    first = next(int(block["number"], 16) for block in l1_blocks(net) if is_in_gloas(block))
    for entry in before:
        net.wait_for_restart("verifier", entry)
    for name in net.nodes:
        net.wait(partial(follows, net, name, first + DEPTH), f"safe origin in Gloas of the {name}")
        net.wait(partial(net.is_ready, name), f"ready {name}")
    blocks = [block for block in l1_blocks(net) if int(block["blobGasUsed"], 16)]
    assert {is_in_gloas(block) for block in blocks} == {False, True}, "blobs before and after"
    last, slot = blocks[-1], int(blocks[-1]["slotNumber"], 16)
    body = beacon_block(net, slot)
    assert "execution_payload" not in body and "blob_kzg_commitments" not in body
    bid = body["signed_execution_payload_bid"]["message"]
    assert (bid["block_hash"], bid["slot"]) == (last["hash"], str(slot))
    assert len(bid["blob_kzg_commitments"]) == int(last["blobGasUsed"], 16) >> 17
    result = listed_batches(module_leftovers, net, int(last["number"], 16))
    assert {batch["inclusion"] for batch in result} == {int(block["number"], 16) for block in blocks}


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
    net.wait(partial(follows, net, name, first + DEPTH), f"safe origin {first + DEPTH} of the {name}")
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
def test_reorgs_of_blocks_with_batches(net: Devnet) -> None:
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
