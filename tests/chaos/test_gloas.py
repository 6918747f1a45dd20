"""L1 enters Gloas during a run of the local network, with batches in blobs: processes are killed at that moment, a
reorg goes across it, and both nodes end with equal output roots."""

import json
import os
import signal
from functools import partial
from typing import Any

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, call, call_batch, http_get

OFFSET = 18
"""Seconds after L1's genesis."""
DEPTH = 3


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


def test_l1_enters_gloas_while_processes_die_and_in_a_reorg(leftovers: Leftovers) -> None:
    with Devnet(leftovers, "--l1-forks", f"gloas={OFFSET}") as net:
        net.wait_for_first_safe()
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
            assert "a bug ends" not in net.log(name), net.logs(60)
        blocks = [block for block in l1_blocks(net) if int(block["blobGasUsed"], 16)]
        assert {is_in_gloas(block) for block in blocks} == {False, True}, "blobs before and after"
        last, slot = blocks[-1], int(blocks[-1]["slotNumber"], 16)
        body = beacon_block(net, slot)
        assert "execution_payload" not in body and "blob_kzg_commitments" not in body
        bid = body["signed_execution_payload_bid"]["message"]
        assert (bid["block_hash"], bid["slot"]) == (last["hash"], str(slot))
        assert len(bid["blob_kzg_commitments"]) == int(last["blobGasUsed"], 16) >> 17
        result = listed_batches(leftovers, net, int(last["number"], 16))
        assert {batch["inclusion"] for batch in result} == {int(block["number"], 16) for block in blocks}
        net.finish()
