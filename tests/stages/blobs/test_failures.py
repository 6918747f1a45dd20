"""Failures of blob sources are told apart, by the words of real beacon nodes among others [BCN17]."""

import pytest

from rollup_node.stages.blobs.failures import RETENTION_SECONDS, Failed, SourceFailure, classify
from rollup_node.stages.messages.codes import Code

NAME = "127.0.0.1:5052"
YOUNG, OLD = 60.0, RETENTION_SECONDS + 1.0


def has_none(words: str = "") -> SourceFailure:
    return SourceFailure(Failed.HAS_NONE, f"{NAME}: has no blobs of slot 7: HTTP status 404{words}")


CASES = [
    # Lighthouse 8.0 (sigp/lighthouse issue 8569) and Prysm 7 (OffchainLabs/prysm issue 16091).
    (
        SourceFailure(
            Failed.NO_ANSWER,
            f"{NAME}: HTTP status 500 (INTERNAL_SERVER_ERROR: Insufficient data columns to reconstruct blobs:"
            " required 64, but only 4 were found.)",
        ),
        OLD,
        Code.BLOB_CUSTODY,
    ),
    (
        has_none(" (Not found: the node does not custody enough data columns to reconstruct blobs)"),
        0,
        Code.BLOB_CUSTODY,
    ),
    (has_none(), OLD, Code.BLOB_EXPIRED),
    (has_none(), YOUNG, Code.BLOB_NOT_FOUND),
    (has_none(" (NOT_FOUND: beacon block at slot 7)"), YOUNG, Code.BLOB_SLOT),
    (SourceFailure(Failed.OTHER_CHAIN, "L1 time 5 is before genesis"), YOUNG, Code.BLOB_SLOT),
    (SourceFailure(Failed.OTHER_BLOBS, f"{NAME}: a blob has the hash 0x01"), YOUNG, Code.BLOB_FILTER),
    (SourceFailure(Failed.WRONG_BLOBS, f"{NAME}: a blob has the hash 0x01"), YOUNG, Code.BLOB_WRONG),
    (SourceFailure(Failed.MALFORMED, f"{NAME}: the answer is not JSON"), YOUNG, Code.BLOB_SHAPE),
    (SourceFailure(Failed.NO_ANSWER, f"{NAME}: cannot connect (Connection refused)"), OLD, Code.BLOB_UNREACHABLE),
]


@pytest.mark.parametrize(("failure", "age", "code"), CASES)
def test_one_source(failure: SourceFailure, age: float, code: Code) -> None:
    assert classify([failure], age) is code


def test_the_most_telling_source_decides() -> None:
    failures = [failure for failure, _, _ in CASES]
    assert classify(failures[::-1], YOUNG) is Code.BLOB_CUSTODY
    assert classify(failures[2:], OLD) is Code.BLOB_EXPIRED
    assert classify([failures[-1], failures[-2]], OLD) is Code.BLOB_SHAPE


@pytest.mark.fault("F13", "F14")
@pytest.mark.condition("C1")
def test_every_failure_has_a_code() -> None:
    assert all(classify([SourceFailure(failed, "")], YOUNG) in Code for failed in Failed)
