"""The metrics of heads [MET22 to MET25]."""

from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.metrics.ref_metrics import show_head, show_l1_block, show_payload
from rollup_node.stages.protocol.types import BlockId, L1BlockRef, L2BlockRef
from tests.support.chains.chain_fixture import ChainFixture, make_rollup

HASH = bytes(range(1, 33))


def test_an_l1_block() -> None:
    meter = Meter("l1")
    show_l1_block(meter, "l1_head", L1BlockRef(HASH, 7, HASH, 1000))
    text = meter.text().decode()
    assert 'refs_number{layer="l1",type="l1_head"} 7.0' in text
    assert 'refs_time{layer="l1",type="l1_head"} 1000.0' in text
    assert f'refs_hash{{layer="l1",type="l1_head"}} {float(int.from_bytes(HASH[:8], "little"))!r}' in text
    assert 'refs_latency{layer="l1",type="l1_head"} -' in text


def test_a_head_without_a_timestamp_has_neither_time_nor_latency() -> None:
    meter = Meter("engine")
    show_head(meter, "l2_safe", L2BlockRef(HASH, 7, HASH, 0, BlockId(3, HASH), 2))
    text = meter.text().decode()
    assert 'refs_number{layer="l1_origin",type="l2_safe"} 3.0' in text
    assert 'refs_seqnr{type="l2_safe"} 2.0' in text
    assert "refs_time{" not in text and "refs_latency{" not in text


def test_a_block_without_its_origin() -> None:
    chain = ChainFixture(make_rollup())
    meter, payload = Meter("engine"), chain.payloads[chain.build(1)[1].hash]
    show_payload(meter, "received_payload", payload)
    text = meter.text().decode()
    assert 'refs_number{layer="l2",type="received_payload"} 1.0' in text
    assert 'refs_time{layer="l2",type="received_payload"} 1002.0' in text and "l1_origin" not in text
