"""Protocol versions: their bytes, comparison and halts [PRV1, PRV4, PRV5]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.stages.protocol.protocol_version import (
    OWN_VERSION,
    ProtocolVersion,
    VersionDelta,
    compare,
    decode,
    must_halt,
    shown,
)

NUMBERS = st.integers(0, (1 << 32) - 2)
VERSIONS = st.builds(ProtocolVersion, NUMBERS, NUMBERS, NUMBERS, st.just(0), st.just(bytes(8)))


def version(*numbers: int, build: bytes = bytes(8)) -> bytes:
    major, minor, patch, pre_release = (*numbers, 0, 0, 0)[:4]
    return ProtocolVersion(major, minor, patch, pre_release, build).encode()


def test_the_bytes_of_a_version() -> None:
    encoded = ProtocolVersion(9, 1, 2, 3, b"build123").encode()
    assert encoded == bytes(8) + b"build123" + bytes([0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3])
    assert decode(encoded) == ProtocolVersion(9, 1, 2, 3, b"build123")
    assert shown(encoded) == "v9.1.2-3+0x6275696c64313233"
    assert shown(OWN_VERSION.encode()) == "v9.0.0"
    assert shown(b"\x07" + bytes(31)) == "unknown version type 7"


@pytest.mark.parametrize(
    ("own", "other", "delta"),
    [
        (version(9), version(9), VersionDelta.EQUAL),
        (version(10), version(9, 5), VersionDelta.AHEAD_MAJOR),
        (version(9), version(10), VersionDelta.OUTDATED_MAJOR),
        (version(9, 1), version(9, 0, 7), VersionDelta.AHEAD_MINOR),
        (version(9), version(9, 1), VersionDelta.OUTDATED_MINOR),
        (version(9, 0, 2), version(9, 0, 1), VersionDelta.AHEAD_PATCH),
        (version(9), version(9, 0, 1), VersionDelta.OUTDATED_PATCH),
        (version(9, 0, 0, 2), version(9, 0, 0, 1), VersionDelta.AHEAD_PRE_RELEASE),
        # A pre-release of 9.0.1 precedes it, and follows 9.0.0.
        (version(9), version(9, 0, 1, 1), VersionDelta.OUTDATED_PRE_RELEASE),
        (version(9), version(9, 1, 0, 1), VersionDelta.OUTDATED_PATCH),
        (version(9), version(10, 0, 0, 1), VersionDelta.OUTDATED_MINOR),
        (version(9), bytes(32), VersionDelta.EMPTY),
        (version(9), b"\x01" + version(9)[1:], VersionDelta.OTHER_TYPE),
        (version(9), version(9, build=b"x" * 8), VersionDelta.OTHER_BUILD),
        (version(9), version((1 << 32) - 1), VersionDelta.INVALID),
    ],
)
def test_comparisons(own: bytes, other: bytes, delta: VersionDelta) -> None:
    assert compare(own, other) is delta


@given(VERSIONS, VERSIONS)
def test_releases_compare_like_their_numbers(one: ProtocolVersion, two: ProtocolVersion) -> None:
    delta = compare(one.encode(), two.encode())
    if ProtocolVersion(0) in (one, two):
        assert delta is VersionDelta.EMPTY
    else:
        assert delta == -compare(two.encode(), one.encode())
        assert (delta > 0, delta == 0) == (one > two, one == two)


@pytest.mark.parametrize(("level", "halting"), [(None, 0), ("none", 0), ("major", 1), ("minor", 2), ("patch", 3)])
def test_the_level_decides_which_outdated_version_halts(level: str | None, halting: int) -> None:
    required = [version(10), version(9, 1), version(9, 0, 1), version(9), version(8), bytes(32), b"\1" + bytes(31)]
    assert [must_halt(level, item) for item in required] == [True] * halting + [False] * (7 - halting)
