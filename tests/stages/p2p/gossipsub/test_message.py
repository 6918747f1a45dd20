"""Message ids of op-node and of the specification."""

from hashlib import sha256

from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.gossipsub.message import MessageIdScheme, message_id

TOPIC = "/optimism/10/3/blocks"


def test_op_node_ids_include_the_topic() -> None:
    content = b"a block"
    data = snappy.compress(content)
    expected = sha256(b"\x01\0\0\0" + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + content).digest()[:20]
    assert message_id(MessageIdScheme.OP_NODE, TOPIC, data, content) == expected
    assert (
        message_id(MessageIdScheme.SPECIFICATION, TOPIC, data, content) == sha256(b"\x01\0\0\0" + content).digest()[:20]
    )


def test_undecompressable_data_is_hashed_raw() -> None:
    data = b"\xff\xff"
    content = snappy.decompress(data)
    expected = sha256(bytes(4) + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + data).digest()[:20]
    assert message_id(MessageIdScheme.OP_NODE, TOPIC, data, content) == expected
    assert message_id(MessageIdScheme.SPECIFICATION, TOPIC, data, content) == sha256(bytes(4) + data).digest()[:20]
