"""What a block of the engine's chain says of itself."""

import msgspec
import pytest

from rollup_node.stages.engine.calls.l2_block_info import L2BlockInfo, UnreadableBlockError, l2_block_info
from rollup_node.stages.protocol.block_refs import system_config_of_payload
from tests.support.chains.chain_fixture import ChainFixture, genesis_payload


def test_a_block_and_genesis(chain: ChainFixture) -> None:
    refs = chain.build(7)
    payload = chain.payloads[refs[7].hash]
    config = system_config_of_payload(chain.rollup, payload)
    assert config.gas_limit == payload.gas_limit
    assert l2_block_info(payload, chain.rollup) == L2BlockInfo(refs[7], chain.l1_ref(101).timestamp, config)
    genesis = l2_block_info(genesis_payload(), chain.rollup)
    assert genesis == L2BlockInfo(chain.genesis, chain.rollup.genesis.l2_time, chain.rollup.genesis.system_config)


def test_a_block_of_no_rollup(chain: ChainFixture) -> None:
    payload = chain.payloads[chain.build(1)[1].hash]
    for transactions in ((), (b"\x02",), (b"\x7e\xc0",)):
        with pytest.raises(UnreadableBlockError, match="block 1 of the engine cannot be read"):
            l2_block_info(msgspec.structs.replace(payload, transactions=transactions), chain.rollup)
