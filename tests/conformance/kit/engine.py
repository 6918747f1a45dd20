"""The engine side: an AttributesHandler with derived attributes as its job."""

import msgspec

from rollup_node.stages.engine.attributes.attributes_handler import AttributesHandler
from rollup_node.stages.engine.calls.heads import Heads
from rollup_node.stages.messages.engine import AttributesReady
from rollup_node.stages.protocol.config import RollupConfig
from tests.conformance.kit.chain import GENESIS, SYSTEM_CONFIG
from tests.support.engine.attributes_jobs import handler_of


def handler_with(config: RollupConfig, attributes_ready: AttributesReady) -> AttributesHandler:
    """Return a handler whose engine has accepted genesis and has no other block, with these attributes as its job."""
    handler = handler_of(config, Heads(GENESIS, GENESIS, GENESIS, GENESIS), SYSTEM_CONFIG)
    assert handler.offer(msgspec.structs.replace(attributes_ready, reset=1, sequence=1)) is None
    return handler
