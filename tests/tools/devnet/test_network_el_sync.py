"""A local network whose verifier starts with an empty engine, which fetches the chain from that of the sequencer, and
whose DA server loses inputs."""

import json
from collections.abc import Iterator

import pytest

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet


@pytest.fixture(scope="module")
def net(module_leftovers: Leftovers) -> Iterator[Devnet]:
    """Yield a network for all tests of the module, the first of which runs while it starts.

    It ends with equal output roots."""
    with Devnet(module_leftovers, "--el-sync", "--altda", "losing") as running:
        yield running
        running.finish()


def test_a_verifier_syncs_by_its_engine_and_survives_kills_of_the_engine_process(net: Devnet) -> None:
    net.wait(lambda: (net.root / "verifier").is_dir(), "the verifier is started")
    net.kill_process("verifier", "engine")  # before the sync, or in the middle of it
    net.wait(lambda: "Finished EL sync" in net.log("verifier"), "the end of EL sync")
    number = net.safe_number()
    assert number >= 4, "derivation starts behind the tip, not at genesis"
    net.kill_process("verifier", "engine")
    net.wait_for_safe(number + 2)


AHEAD = "reading challenges ahead"


def test_inputs_that_the_server_loses_are_read_from_l1(net: Devnet) -> None:
    """The batcher challenges and resolves what is lost; a derivation process that is killed meanwhile reads that."""
    seen = net.log("verifier").count(AHEAD)
    net.wait(lambda: net.log("verifier").count(AHEAD) > seen, "another lost input")
    number = net.safe_number()
    net.kill_process("verifier", "derivation")
    for name in net.nodes:
        net.wait_for_safe(number + 4, name)
    assert json.loads((net.root / "batcher.json").read_text())["challenges"] >= 1
    assert json.loads((net.root / "rollup.json").read_text())["alt_da"]["da_challenge_window"] == 8
