"""Message ids by both rules."""

from hashlib import sha256

from rollup_node.stages.p2p.encoding import snappy
from rollup_node.stages.p2p.gossipsub.message import MessageIdScheme, message_id

TOPIC = "/optimism/10/3/blocks"


def test_the_topic_is_part_of_op_nodes_ids() -> None:
    content = b"a block"
    data = snappy.compress(content)
    expected = sha256(b"\x01\0\0\0" + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + content).digest()[:20]
    assert message_id(MessageIdScheme.OP_NODE, TOPIC, data, content) == expected
    assert (
        message_id(MessageIdScheme.SPECIFICATION, TOPIC, data, content) == sha256(b"\x01\0\0\0" + content).digest()[:20]
    )


def test_what_does_not_decompress_is_hashed_as_it_came() -> None:
    data = b"\xff\xff"
    content = snappy.decompress(data)
    expected = sha256(bytes(4) + len(TOPIC).to_bytes(8, "little") + TOPIC.encode() + data).digest()[:20]
    assert message_id(MessageIdScheme.OP_NODE, TOPIC, data, content) == expected
    assert message_id(MessageIdScheme.SPECIFICATION, TOPIC, data, content) == sha256(bytes(4) + data).digest()[:20]
