"""op-node on a lying L1: it derives what the forged chain says, as our node does without a checkpoint."""

from functools import partial

from tests.support.foreign.op_programs import ForeignProgram, find_program, op_node_options, words
from tests.support.processes.extra_node import ExtraEngine
from tests.support.processes.forged_l1 import WINDOW, ForgedL1, has_block, has_loot
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet, call, wait_for
from tests.support.servers.loopback import free_port, own_address


def test_op_node_follows_a_forged_l1(leftovers: Leftovers) -> None:
    program = find_program("op-node")
    with Devnet(leftovers, *CALLDATA, *WINDOW) as net, ForgedL1(leftovers, net) as l1:
        engine, port = ExtraEngine(leftovers, net), free_port()
        options = op_node_options(net, engine.auth, port) | {"l1": l1.url, "l1.beacon": l1.beacon}
        with ForeignProgram(leftovers, program, *words(options)) as node:
            wait_for(partial(has_loot, engine.http), f"the loot: {node.out[-3000:]}")
            status = call(f"http://{own_address()}:{port}", "optimism_syncStatus")
            assert has_block(l1.url, status["current_l1"]) and has_block(l1.url, status["head_l1"])
            node.stop()
        engine.kill()
        net.finish()
