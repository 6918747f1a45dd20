"""A batcher that posts blocks with transactions which they do not have, for a network without one."""

from collections.abc import Mapping
from functools import partial

from tests.support.engine.answer_table import transaction_cases
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, call

DEPOSIT = "0x7e"
ADDED = {3: "nonce too high", 6: "r of no point", 9: "more gas than the one before leaves"}
"""The blocks that are posted with another transaction, and its name in the table of answers."""
LAST = 11
"""The block that becomes safe behind them: no node waits for another batch."""
EMBEDDED = ("nonce too high", "invalid transaction signature", "gas limit of the block reached")
SKIPPING = ("TRANSACTION-LEFT-OUT", *EMBEDDED[1:])
OP_RETH = ("TRANSACTION-LEFT-OUT", "BUILD-LOST", "TRANSACTION-INVALID", "is of no key", "and those before it leave")
"""What the log of a node says about them with the embedded engine, with one that leaves them out, and with op-reth."""


def replace_lies(leftovers: Leftovers, net: Devnet, texts: Mapping[str, tuple[str, ...]]) -> None:
    """Post the blocks as calldata, and wait until all nodes have safe blocks behind them, which consist of deposits.

    Each node has said so with its texts in the log, and is ready."""
    about, sequencer = net.network, net.node("sequencer")
    options = {"l1": about["l1"], "engine": sequencer["engine"], "node": sequencer["rpc"], "da": "calldata"}
    options |= {"rollup": about["rollup"], "key-file": about["batcher_key"], "batch": "span"}
    words = [f"--{name}={value}" for name, value in options.items()]
    raw = {case.name: case.raw for case in transaction_cases()}
    words += [f"--add={block}={raw[name].hex()}" for block, name in ADDED.items()]
    with Program(leftovers, "rollup_node.tools.batcher", *words) as batcher:
        for node in texts:
            net.wait_for_safe(LAST, node)
        for node in texts:
            for block in ADDED:
                result = call(net.node(node)["engine"], "eth_getBlockByNumber", hex(block), True)
                assert {item["type"] for item in result["transactions"]} == {DEPOSIT}, (node, block)
            for text in texts[node]:
                assert text in net.log(node), (node, text)
            net.wait(partial(net.is_ready, node), f"the {node} is ready")
        batcher.stop()
