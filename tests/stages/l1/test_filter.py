"""The bloom test has no false negatives, and logs are split by their event."""

import msgspec

from rollup_node.stages.l1.filter import (
    L1Filter,
    bloom_excludes_challenges,
    bloom_excludes_logs,
    filter_of_rollup,
    split_logs,
    wanted_events,
)
from rollup_node.stages.protocol.commitments import CHALLENGE_TOPIC
from rollup_node.stages.protocol.config import AltDaConfig
from rollup_node.stages.protocol.types import Log
from tests.support.chains.logs_bloom import logs_bloom
from tests.support.chains.plain_rollup import PLAIN_ROLLUP

L1_FILTER = L1Filter(1, b"\xff" * 20, b"\x11" * 20, b"\x22" * 20)


def test_a_bloom_with_only_half_of_an_event_excludes_it() -> None:
    (portal, deposit), (system_config, update) = wanted_events([L1_FILTER])
    assert bloom_excludes_logs(logs_bloom([]), [L1_FILTER])
    assert bloom_excludes_logs(logs_bloom([portal]), [L1_FILTER])
    assert bloom_excludes_logs(logs_bloom([portal, update]), [L1_FILTER])
    assert bloom_excludes_logs(logs_bloom([system_config, deposit]), [L1_FILTER])


def test_several_rollups_have_each_their_own_logs() -> None:
    """[LHD32]"""
    others = [
        L1Filter(1, b"\xee" * 20, b"\x33" * 20, b"\x44" * 20),
        L1Filter(1, b"\xdd" * 20, b"\x55" * 20, b"\x22" * 20, b"\xda" * 20),
    ]
    filters = [L1_FILTER, *others]
    for events in map(wanted_events, [[one] for one in filters]):
        for event in events:
            assert not bloom_excludes_logs(logs_bloom(event), filters)
    assert bloom_excludes_logs(logs_bloom([b"\x11" * 20, b"\x33" * 20]), filters)
    assert bloom_excludes_challenges(logs_bloom(wanted_events(others[:1])[0]), filters)
    assert not bloom_excludes_challenges(logs_bloom([b"\xda" * 20, CHALLENGE_TOPIC]), filters)
    logs = [Log(address, (topic,), b"", index) for index, (address, topic) in enumerate(wanted_events(filters))]
    assert split_logs(logs, filters[0]) == ((logs[0],), (logs[1], logs[5]), ())
    assert split_logs(logs, filters[1]) == ((logs[2],), (logs[3],), ())
    assert split_logs(logs, filters[2]) == ((logs[4],), (logs[1], logs[5]), (logs[6],)), (
        "a contract of two is read by both"
    )


def test_the_filter_of_a_rollup() -> None:
    config = msgspec.structs.replace(
        PLAIN_ROLLUP,
        l1_chain_id=1,
        batch_inbox=L1_FILTER.inbox,
        deposit_contract=L1_FILTER.deposit_contract,
        l1_system_config=L1_FILTER.system_config,
    )
    assert filter_of_rollup(config) == L1_FILTER
    assert filter_of_rollup(config, inbox_hashes=True).inbox_hashes
    for kind, contract in (("KeccakCommitment", b"\xda" * 20), ("GenericCommitment", None)):
        alt_da = AltDaConfig(b"\xda" * 20, kind, 1, 1)
        result = filter_of_rollup(msgspec.structs.replace(config, alt_da=alt_da))
        assert result == msgspec.structs.replace(L1_FILTER, challenge_contract=contract)
