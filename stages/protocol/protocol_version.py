"""Protocol versions, by which L1 signals what nodes should and must support [PRV1, PRV4, PRV5]."""

from enum import IntEnum
from typing import NamedTuple

from rollup_node.stages.protocol.types import ZERO_HASH, Hash

_RESERVED_END, _BUILD_END = 8, 16
_MAX = (1 << 32) - 1
LEVELS = {"patch": 2, "minor": 3, "major": 4}
"""The values of `rollup.halt` that halt: the lowest level at which an outdated version does."""


class VersionDelta(IntEnum):
    """How one version compares with another: ahead is positive, outdated negative."""

    AHEAD_MAJOR = 4
    AHEAD_MINOR = 3
    AHEAD_PATCH = 2
    AHEAD_PRE_RELEASE = 1
    EQUAL = 0
    OUTDATED_PRE_RELEASE = -1
    OUTDATED_PATCH = -2
    OUTDATED_MINOR = -3
    OUTDATED_MAJOR = -4
    OTHER_TYPE = 100
    OTHER_BUILD = 101
    EMPTY = 102
    INVALID = 103


class ProtocolVersion(NamedTuple):
    """A version of type 0 [PRV1]. `build` is 8 bytes; a `pre_release` above 0 precedes the version itself."""

    major: int
    minor: int = 0
    patch: int = 0
    pre_release: int = 0
    build: bytes = bytes(8)

    def encode(self) -> Hash:
        """Return the 32 bytes of the version."""
        numbers = (self.major, self.minor, self.patch, self.pre_release)
        return bytes(_RESERVED_END) + self.build + b"".join(number.to_bytes(4, "big") for number in numbers)


OWN_VERSION = ProtocolVersion(9)
"""What this node supports."""


def decode(value: Hash) -> ProtocolVersion:
    """Return the numbers in 32 bytes, as type 0 has them."""
    major, minor, patch, pre_release = (
        int.from_bytes(value[at : at + 4], "big") for at in range(_BUILD_END, len(value), 4)
    )
    return ProtocolVersion(major, minor, patch, pre_release, value[_RESERVED_END:_BUILD_END])


def shown(value: Hash) -> str:
    """Return a version as text: `v9.0.0`, `v9.0.0-1` for a pre-release, with its build behind a plus sign."""
    if value[0]:
        return f"unknown version type {value[0]}"
    version = decode(value)
    text = f"v{version.major}.{version.minor}.{version.patch}"
    text += f"-{version.pre_release}" if version.pre_release else ""
    return text + (f"+0x{version.build.hex()}" if any(version.build) else "")


def compare(own: Hash, other: Hash) -> VersionDelta:
    """How `own` compares with `other` [PRV4]."""
    one, two = decode(own), decode(other)
    if ZERO_HASH in (own, other):
        return VersionDelta.EMPTY
    if own[0] != other[0]:
        return VersionDelta.OTHER_TYPE
    if one.build != two.build:
        return VersionDelta.OTHER_BUILD
    if _MAX in (*one[:4], *two[:4]):
        return VersionDelta.INVALID
    for level, left, right in zip((4, 3, 2, 1), _order(one), _order(two), strict=True):
        if left != right:
            return VersionDelta(level if left > right else -level)
    return VersionDelta.EQUAL


def must_halt(level: str | None, required: Hash) -> bool:
    """Whether this node is outdated by `level` of `rollup.halt` or more [PRV5]."""
    return level in LEVELS and compare(OWN_VERSION.encode(), required) in range(-4, 1 - LEVELS[level])


def _order(version: ProtocolVersion) -> tuple[int, int, int, int]:
    """Return the numbers to compare by: those of the version before a pre-release."""
    major, minor, patch, pre_release, _ = version
    if pre_release:
        if patch:
            patch -= 1
        elif minor:
            minor, patch = minor - 1, _MAX
        elif major:
            major, minor = major - 1, _MAX
    return major, minor, patch, pre_release
