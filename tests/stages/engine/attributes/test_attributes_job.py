"""What a job of derived attributes asks the engine for, and how it is called."""

from rollup_node.stages.engine.attributes.attributes_job import AttributesJob, AttributesStep
from rollup_node.stages.engine.attributes.build_probe import BuildProbe
from rollup_node.stages.protocol.attributes import deposits_only
from tests.support.chains.chain_fixture import ChainFixture
from tests.support.engine.attributes_jobs import derived


def test_its_block_and_what_is_asked_for(chain: ChainFixture) -> None:
    message = derived(chain, chain.genesis)
    job = AttributesJob(message, message.attributes, AttributesStep.START)
    assert job.block == f"block 1 on {chain.genesis}" and job.asked == message.attributes
    job.probe = BuildProbe(message.attributes)
    assert job.asked == deposits_only(message.attributes), "the first of two transactions"
    job.replaced = True
    assert job.block == f"block 1 of deposits alone on {chain.genesis}"
