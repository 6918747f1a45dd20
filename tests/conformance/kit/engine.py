"""The engine side: the block that an engine would seal from attributes, and an AttributesHandler with such a job."""

from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.calls.engine_api import ForkchoiceAnswer
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.engine.heads.engine_controller import EngineController
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.config import RollupConfig
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import EMPTY_ROOT
from rollup_node.stages.protocol.payloads import ExecutionPayload, PayloadAttributes
from rollup_node.stages.protocol.system_config import encode_extra_data
from rollup_node.stages.protocol.types import ZERO_HASH, L2BlockRef
from tests.conformance.kit.chain import GENESIS, SYSTEM_CONFIG


def sealed(config: RollupConfig, parent: L2BlockRef, attributes: PayloadAttributes) -> ExecutionPayload:
    """Return the block of these attributes, with made-up roots."""
    rules = config.schedule().l2(attributes.timestamp)
    assert config.chain_op_config is not None
    extra = encode_extra_data(attributes.eip1559_params, attributes.min_base_fee, config.chain_op_config)
    return ExecutionPayload(
        parent_hash=parent.hash,
        fee_recipient=attributes.fee_recipient,
        state_root=ZERO_HASH,
        receipts_root=ZERO_HASH,
        logs_bloom=bytes(256),
        prev_randao=attributes.prev_randao,
        block_number=parent.number + 1,
        gas_limit=attributes.gas_limit,
        gas_used=0,
        timestamp=attributes.timestamp,
        extra_data=extra,
        base_fee=7,
        block_hash=keccak256(parent.hash + b"".join(attributes.transactions)),
        transactions=attributes.transactions,
        withdrawals=attributes.withdrawals,
        blob_gas_used=0 if rules.beacon_root else None,
        excess_blob_gas=0 if rules.beacon_root else None,
        withdrawals_root=EMPTY_ROOT if rules.withdrawals_root else None,
        parent_beacon_root=attributes.parent_beacon_root,
    )


def handler_with(config: RollupConfig, attributes_ready: AttributesReady) -> AttributesHandler:
    """Return a handler whose engine has accepted genesis and has no other block, with these attributes as its job."""
    controller = EngineController()
    handler = AttributesHandler(config, controller)
    controller.start(Heads(GENESIS, GENESIS, GENESIS, GENESIS))
    handler.start(1, SYSTEM_CONFIG)
    call = controller.forkchoice_due()
    assert call is not None and handler.answer(call, ForkchoiceAnswer("VALID")) is None
    message = AttributesReady(
        1,
        1,
        attributes_ready.parent,
        attributes_ready.attributes,
        attributes_ready.derived_from,
        attributes_ready.concluding,
    )
    assert handler.offer(message) is None
    return handler
