"""An L1 that lies, with valid blocks from the same genesis, of which a third of each sync committee signs the newest.

A node without a checkpoint mints on L2 what it says. A node with one stays where it is, names it, and follows the
honest L1 as soon as that is there. A network goes on beside it, over sync committee periods and into Gloas."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.processes.extra_node import ExtraNode, assert_same_chain
from tests.support.processes.forged_l1 import WINDOW, has_block, has_loot, steal
from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import (
    CALLDATA,
    Devnet,
    call,
    http_get,
    reports_problem,
)

PERIOD = 8
"""L1 blocks."""
GLOAS = 12
"""Seconds after L1's genesis, in the second period."""
L1_HEADS = ("current_l1", "head_l1", "safe_l1", "finalized_l1")


def checkpoint_options(net: Devnet, folder: Path) -> dict[str, object]:
    """Return the options of a private network by the documented recipe, with L1's genesis block as the checkpoint."""
    paths = ("config/spec", "beacon/genesis", "beacon/blocks/genesis/root")
    answers = [json.loads(http_get(f"{net.network['beacon']}/eth/v1/{path}")[1])["data"] for path in paths]
    file = folder / "beacon-network.json"
    file.write_text(json.dumps(answers[0] | answers[1]))
    return {
        "l1.checkpoint": answers[2]["root"],
        "l1.checkpoint.network": file,
        "l1.checkpoint.path": folder / "proven.json",
    }


def wrong_network(folder: Path) -> dict[str, object]:
    """Return the option with the file of a beacon chain that has another genesis."""
    network = json.loads((folder / "beacon-network.json").read_text())
    file = folder / "other-network.json"
    file.write_text(json.dumps(network | {"genesis_validators_root": "0x" + "11" * 32}))
    return {"l1.checkpoint.network": file}


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network that goes on beside a forged L1, whose pool has the deposit of a thief."""
    flags = ("--checkpoint", "--committee-period", str(PERIOD), "--forged-l1", "--l1-forks", f"gloas={GLOAS}")
    with Devnet(module_leftovers, *CALLDATA, *WINDOW, *flags) as running:
        running.wait_for_first_safe()
        steal(running.network["forged_l1"])
        yield running
        for name in running.nodes:
            assert "a bug ends" not in running.log(name), running.logs(60)
        running.finish()


def test_a_forged_l1_is_followed_without_a_checkpoint_alone(net: Devnet, module_leftovers: Leftovers) -> None:
    forged, folder = net.network["forged_l1"], module_leftovers.folder
    lie = {"l1": forged, "l1.beacon": net.network["forged_beacon"], "p2p.disable": "true"}
    trusting = ExtraNode(module_leftovers, net, "", lie, name="trusting")
    right = checkpoint_options(net, folder)
    proving = ExtraNode(module_leftovers, net, "", lie | right | wrong_network(folder), name="proving")
    assert "is not a beacon node of devnet" in proving.program.wait_for_exit().error_line()
    proving.start(right)
    trusting.wait(partial(has_loot, trusting.engine.http), "the loot")
    status = call(trusting.url, "optimism_syncStatus")
    # The labels are polled seldom, and may still be at genesis.
    assert all(has_block(forged, status[name]) for name in ("current_l1", "head_l1"))
    trusting.stop()
    proving.wait(partial(reports_problem, proving.url, "l1", "L1-UNPROVEN"), "the lie")
    status = call(proving.url, "optimism_syncStatus")
    assert not any(has_block(forged, status[name]) for name in L1_HEADS), status
    assert status["unsafe_l2"]["number"] == 0 and not has_loot(proving.engine.http)
    proving.program.stop()
    proving.start({"l1": f"{forged},{net.network['l1']}", "l1.beacon": net.network["beacon"]})
    proving.wait_for_head(1, "safe_l2")
    proving.wait_until_ready()
    assert_same_chain(net, proving, proving.head("safe_l2"))
    assert not has_loot(proving.engine.http)
    proving.stop()


def test_periods_and_gloas_beside_a_forged_l1(net: Devnet) -> None:
    forged = net.network["forged_l1"]

    def follows(name: str) -> bool:
        status = net.sync_status(name)
        for head in L1_HEADS:
            assert not has_block(forged, status[head]), f"{head} of the {name} is of the forged chain: {status[head]}"
        return bool(status["safe_l2"]["l1origin"]["number"] > 2 * PERIOD)

    for name in net.nodes:
        net.wait(partial(follows, name), f"safe origin in the third period of the {name}")
        net.wait(partial(net.is_ready, name), f"ready {name}")
        proof = json.loads(http_get(f"{net.node(name)['rpc']}/status.json")[1])["l1"]["proof"]
        assert proof["linked"] and proof["participation"] == 1.0 and proof["period"] >= 2
