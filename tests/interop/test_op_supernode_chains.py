"""op-supernode as the other supernode of two chains, between which valid and invalid messages go: the same verified
heads, outputs, super roots and denied blocks; op-node follows ours [SNO6, LB7, IV2]."""

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from tests.support.foreign.op_programs import ForeignProgram, find_program, op_node_options, words
from tests.support.processes.chains import CHAINS, Chains
from tests.support.processes.extra_node import ExtraEngine
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import RpcError, call
from tests.support.servers.loopback import free_port, own_address

OURS, THEIRS = "supernode", "op-supernode"
SETTLED = ("optimistic_at_timestamp", "chain_ids", "data")


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Chains]:
    """Yield a network that ends with equal outputs, super roots and denied blocks.

    op-supernode starts all chains again for each of these, so that they are few."""
    flags = ("--chains=2", "--interop=4", "--invalid=6", "--l1-block-time=2", f"--op-supernode={find_program(THEIRS)}")
    with Chains(module_leftovers, *flags) as running:
        running.wait_for_height(2)
        yield running
        assert "a bug ends" not in running.log(OURS) and "Traceback" not in running.log(OURS), running.logs(60)
        result = running.finish()
    assert result["super_roots"] > 0 and result["invalidated"], result


def optimistic_output(net: Chains, chain: int, timestamp: int) -> dict[str, Any]:
    """Return the optimistic output of a chain in a second that both verified, where their answers about it are equal
    but for what moves; empty before."""
    answers = []
    for url in net.supernodes.values():
        try:
            answers.append(call(url, "superroot_atTimestamp", hex(timestamp)))
        except RpcError:  # op-supernode, while it takes a block back
            return {}
    ours, theirs = ({key: answer.get(key) for key in SETTLED} for answer in answers)
    optimistic: dict[str, dict[str, Any]] = ours["optimistic_at_timestamp"]
    return optimistic[str(chain)] if ours["data"] is not None and ours == theirs else {}


def test_both_supernodes_deny_the_same_block(net: Chains) -> None:
    """Their answers about that second are equal, with the denied block's output as the optimistic one [LB8]."""
    chain, number, block = net.wait(net.denials, "a block is denied")[0]
    head = net.wait(partial(net.head, chain), "a verified head")
    timestamp = head["timestamp"] - head["number"] + number
    optimistic = net.wait(partial(optimistic_output, net, chain, timestamp), f"equal answers of {timestamp}")
    assert f"height={number} payloadHash={block}" in net.log(THEIRS)
    assert optimistic["output"]["blockHash"].startswith(block)
    replacement = call(f"{net.supernodes[OURS]}/{chain}/", "optimism_outputAtBlock", hex(number))
    assert replacement["outputRoot"] != optimistic["output_root"]


class Follower:
    """op-node that follows our supernode on one chain, with an engine that fetches from the supernode's."""

    def __init__(self, watch: Leftovers, net: Chains, chain: int, stack: ExitStack) -> None:
        about, port = net.chain(chain), free_port()
        self.url, self.source = f"http://{own_address()}:{port}", f"{net.supernodes[OURS]}/{chain}/"
        engine = stack.enter_context(ExtraEngine(watch, about, "--el-sync-from", about.network["engines"][OURS]))
        options = op_node_options(about, engine.auth, port) | {"l2.follow.source": self.source}
        self._program = stack.enter_context(ForeignProgram(watch, find_program("op-node"), *words(options)))

    def has_safe(self, number: int) -> bool:
        """Whether its safe head has that number."""
        assert self._program.running, self._program.out[-3000:] + self._program.err[-3000:]
        return bool(call(self.url, "optimism_syncStatus")["safe_l2"]["number"] >= number)

    def agrees(self, last: int, replaced: int, denied: str) -> bool:
        """Whether its blocks up to one are those of our supernode, and the denied one is replaced in both.

        Before Lagoon its safe head is the local safe one, which goes back."""
        try:
            theirs, ours = (
                [call(url, "optimism_outputAtBlock", hex(number)) for number in range(last + 1)]
                for url in (self.url, self.source)
            )
        except RpcError:
            return False
        is_replaced = not ours[replaced]["blockRef"]["hash"].startswith(denied)
        return is_replaced and [one["outputRoot"] for one in theirs] == [one["outputRoot"] for one in ours]


def test_op_node_follows_our_supernode_over_a_replaced_block(net: Chains, module_leftovers: Leftovers) -> None:
    """[FSR1, SNO6]"""
    with ExitStack() as stack:
        followers = {chain: Follower(module_leftovers, net, chain, stack) for chain in CHAINS}
        for chain, follower in followers.items():
            net.wait(partial(follower.has_safe, 1), f"op-node follows {chain}")
        before = len(net.denials())
        chain, number, block = net.wait(lambda: net.denials()[before:], "one more block is denied")[0]
        agrees = partial(followers[chain].agrees, number + 2, number, block)
        net.wait(agrees, f"op-node has our blocks of {chain} up to {number + 2}", every=1.0)
