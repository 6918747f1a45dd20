"""A local network whose DA server loses inputs for good."""

from tests.support.processes.leftovers import Leftovers
from tests.support.processes.programs import Devnet


def test_blocks_whose_input_is_lost_are_posted_again(leftovers: Leftovers) -> None:
    """Their challenges expire, the nodes skip the commitments, and what the batcher posts again arrives at last."""
    with Devnet(leftovers, "--altda", "withholding") as net:
        net.wait(lambda: all("expired" in net.log(name) for name in net.nodes), "an expired challenge")
        number = net.safe_number()
        for name in net.nodes:
            net.wait_for_safe(number + 4, name)
        net.finish()
