"""Who leads, and which blocks are committed."""

import msgspec
import pytest

from rollup_node.stages.protocol.payloads import ExecutionPayload, payload_block_hash
from rollup_node.tools.devnet.conductor import cluster as clusters
from rollup_node.tools.devnet.conductor.cluster import Cluster, CommitRefused
from tests.support.p2p.blocks import chain

SERVERS = ("sequencer", "sequencer-2")
BLOCKS = chain(6)


def committed(count: int) -> Cluster:
    cluster = Cluster(SERVERS)
    for payload in BLOCKS[:count]:
        assert cluster.commit("sequencer", payload)
    return cluster


def other(payload: ExecutionPayload) -> ExecutionPayload:
    """Another block with the same parent."""
    changed = msgspec.structs.replace(payload, gas_used=payload.gas_used + 1)
    return msgspec.structs.replace(changed, block_hash=payload_block_hash(changed))


def test_blocks_are_committed_in_order_and_the_last_one_once() -> None:
    cluster = committed(3)
    assert not cluster.commit("sequencer", BLOCKS[2]), "it was stored although its answer was lost"
    expected = [(payload.block_number, payload.block_hash) for payload in BLOCKS[:3]]
    assert [(each.number, each.hash) for each in cluster.blocks] == expected
    assert cluster.last == BLOCKS[2]


def test_a_server_that_does_not_lead_commits_nothing() -> None:
    cluster = committed(2)
    with pytest.raises(CommitRefused, match="node is not the leader"):
        cluster.commit("sequencer-2", BLOCKS[2])
    cluster.lead("sequencer-2")
    assert cluster.term == 2
    with pytest.raises(CommitRefused, match="node is not the leader"):
        cluster.commit("sequencer", BLOCKS[2])
    assert cluster.commit("sequencer-2", BLOCKS[2])
    assert [block.server for block in cluster.blocks] == ["sequencer", "sequencer", "sequencer-2"]
    with pytest.raises(KeyError):
        cluster.lead("sequencer-3")


@pytest.mark.parametrize("payload", [other(BLOCKS[2]), BLOCKS[1], BLOCKS[4]], ids=["twin", "older", "gap"])
def test_a_block_that_does_not_extend_is_refused_unless_the_last_one_was_replaced(payload: ExecutionPayload) -> None:
    cluster = committed(3)
    assert not cluster.extends(payload)
    with pytest.raises(CommitRefused, match=rf"^block {payload.block_number} .* does not extend block 3 "):
        cluster.commit("sequencer", payload)
    assert cluster.last == BLOCKS[2]
    assert cluster.commit("sequencer", payload, is_replaced=True)
    assert cluster.last == payload and cluster.after(payload.block_hash) == []
    assert len(cluster.blocks) == 4, "what was committed stays on record"


def test_the_blocks_that_a_server_lacks() -> None:
    cluster = committed(4)
    assert cluster.after(BLOCKS[3].block_hash) == []
    assert cluster.after(BLOCKS[1].block_hash) == BLOCKS[2:4]
    assert cluster.after(BLOCKS[0].parent_hash) == BLOCKS[:4], "the parent of the first one needs all"
    assert cluster.after(b"\x77" * 32) is None
    assert Cluster(SERVERS).after(bytes(32)) is None


def test_payloads_and_records_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "MAX_PAYLOADS", 2)
    monkeypatch.setattr(clusters, "MAX_BLOCKS", 3)
    cluster = committed(5)
    assert cluster.after(BLOCKS[2].block_hash) == BLOCKS[3:5] and cluster.after(BLOCKS[1].block_hash) is None
    assert [block.number for block in cluster.blocks] == [3, 4, 5] and cluster.dropped == 2
    monkeypatch.setattr(clusters, "MAX_PAYLOAD_BYTES", 1)
    cluster.commit("sequencer", BLOCKS[5])
    assert cluster.last == BLOCKS[5] and cluster.after(BLOCKS[4].block_hash) == [BLOCKS[5]]
    assert cluster.after(BLOCKS[3].block_hash) is None
