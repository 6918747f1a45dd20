"""A batcher that posts blocks with transactions which they do not have, for a network without one."""

from collections.abc import Mapping
from functools import partial

from tests.support.engine.answer_table import transaction_cases
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet, Program, call

DEPOSIT = "0x7e"
BLOCKS = (3, 6, 9)
"""The blocks that are posted with another transaction."""
LAST = 11
"""The block that becomes safe behind them: no node waits for another batch."""


def lying_batcher(leftovers: Leftovers, net: Devnet, batch: str, added: tuple[str, str, str]) -> Program:
    """Post the blocks with the transactions of these names in the table of answers, as calldata."""
    about, sequencer = net.network, net.node("sequencer")
    options = {"l1": about["l1"], "engine": sequencer["engine"], "node": sequencer["rpc"], "da": "calldata"}
    options |= {"rollup": about["rollup"], "key-file": about["batcher_key"], "batch": batch}
    words = [f"--{name}={value}" for name, value in options.items()]
    raw = {case.name: case.raw for case in transaction_cases()}
    words += [f"--add={block}={raw[name].hex()}" for block, name in zip(BLOCKS, added, strict=True)]
    return Program(leftovers, "rollup_node.tools.batcher", *words)


def wait_for_replacements(net: Devnet, texts: Mapping[str, tuple[str, ...]]) -> None:
    """Wait until all nodes have safe blocks behind those, which consist of their deposits.

    Each node has said so with its texts in the log, and is ready."""
    for node in texts:
        net.wait_for_safe(LAST, node)
    for node in texts:
        for block in BLOCKS:
            result = call(net.node(node)["engine"], "eth_getBlockByNumber", hex(block), True)
            assert {item["type"] for item in result["transactions"]} == {DEPOSIT}, (node, block)
        for text in texts[node]:
            assert text in net.log(node), (node, text)
        net.wait(partial(net.is_ready, node), f"the {node} is ready")
