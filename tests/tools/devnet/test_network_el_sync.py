"""A local network whose verifier starts with an empty engine, which fetches the chain from that of the sequencer."""

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import CALLDATA, Devnet


def test_a_verifier_syncs_by_its_engine_and_survives_kills_of_the_engine_process(leftovers: Leftovers) -> None:
    with Devnet(leftovers, "--el-sync", *CALLDATA) as net:
        net.wait(lambda: (net.root / "verifier").is_dir(), "the verifier is started")
        net.kill_process("verifier", "engine")  # before the sync, or in the middle of it
        net.wait(lambda: "Finished EL sync" in net.log("verifier"), "the end of EL sync")
        number = net.safe_number()
        assert number >= 4, "derivation starts behind the tip, not at genesis"
        net.kill_process("verifier", "engine")
        for name in net.nodes:
            net.wait_for_safe(number + 2, name)
        result = net.finish()
    assert result["safe"] >= number + 2
