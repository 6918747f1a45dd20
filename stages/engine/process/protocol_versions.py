"""The protocol versions of L1: signalled to the engine, compared, and perhaps a reason to halt [PRV3 to PRV7]."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from enum import IntEnum
from typing import NamedTuple

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.protocol.errors import HaltError, TemporaryError
from rollup_node.stages.protocol.types import ZERO_HASH, Hash

log = Logger("engine")

IDLE_SECONDS = 3600.0
REPEAT_SECONDS = 600.0
ANNOUNCE_SECONDS = 2.0
"""How long the halt is published before the process ends: published states are repeated at least every second."""

Signal = Callable[[Hash, Hash], Awaitable[Hash | None]]
"""Passes the recommended and the required version on to the engine; returns the version of the engine, None if it has
no method for that."""


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


class ProtocolVersions:
    """`signal` calls the engine, `announce` publishes that the node halts; `level` is `rollup.halt`."""

    def __init__(self, level: str | None, signal: Signal, announce: Callable[[], None], meter: Meter) -> None:
        self._level, self._signal, self._announce, self._meter = level, signal, announce, meter
        self._last: tuple[Hash, Hash] | None = None
        self._last_at = 0.0
        self._labels: tuple[str, ...] | None = None
        self._lacks_method = False
        self._due: tuple[Hash, Hash] | None = None
        self.task = PeriodicTask("protocol versions", self._step)

    def update(self, runtime_config: RuntimeConfig) -> None:
        """Take what L1 signals. Without any version nothing happens."""
        versions = (runtime_config.recommended_version, runtime_config.required_version)
        is_repeated = versions == self._last and time.monotonic() - self._last_at < REPEAT_SECONDS
        if versions != (ZERO_HASH, ZERO_HASH) and not is_repeated:
            self._due, self._last, self._last_at = versions, versions, time.monotonic()
            self.task.wake.set()

    async def _step(self) -> float:
        """Raise HaltError when the required version is too new."""
        versions, self._due = self._due, None
        if versions is None:
            return IDLE_SECONDS
        recommended, required = versions
        own, engine = OWN_VERSION.encode(), await self._engine_version(recommended, required)
        for node, version in (("local", own), ("engine", engine)):
            for kind, wanted in (("recommended", recommended), ("required", required)):
                if version is not None:
                    self._report(node, version, kind, wanted)
        self._show_versions(own, engine, recommended, required)
        if must_halt(self._level, required):
            fields = {"required": shown(required), "local": shown(own), "do": Code.PROTOCOL_VERSION.remedy}
            log.error("halting: L1 requires a newer protocol version", code=Code.PROTOCOL_VERSION.text, **fields)
            self._announce()
            await asyncio.sleep(ANNOUNCE_SECONDS)
            raise HaltError(f"L1 requires protocol version {shown(required)}, this node supports {shown(own)}")
        return IDLE_SECONDS

    async def _engine_version(self, recommended: Hash, required: Hash) -> Hash | None:
        try:
            version = await self._signal(recommended, required)
        except TemporaryError as error:
            code = error.code if isinstance(error.code, Code) else Code.ENGINE_ANSWER
            text = "failed to signal protocol versions to the execution engine"
            log.warn(text, code=code.text, error=str(error))
            return None
        lacked_method, self._lacks_method = self._lacks_method, version is None
        if self._lacks_method and not lacked_method:
            log.info("the execution engine has no engine_signalSuperchainV1, protocol versions are compared without it")
        return version

    def _show_versions(self, own: Hash, engine: Hash | None, recommended: Hash, required: Hash) -> None:
        versions = (own, engine, recommended, required)
        labels = tuple("unknown" if version is None else shown(version) for version in versions)
        names = "local", "engine", "recommended", "required"
        if self._labels not in (None, labels):
            self._meter.set("protocol_versions", 0, **dict(zip(names, self._labels or (), strict=True)))
        self._labels = labels
        self._meter.set("protocol_versions", 1, **dict(zip(names, labels, strict=True)))

    def _report(self, node: str, version: Hash, kind: str, wanted: Hash) -> None:
        comparison = compare(version, wanted)
        self._meter.set("protocol_version_delta", comparison, type=f"{node}_{kind}")
        fields = {"node": node, "version": shown(version), kind: shown(wanted)}
        if -LEVELS["major"] <= comparison < 0:
            write = log.error if kind == "required" else log.warn
            write(f"the {kind} protocol version is newer", code=Code.PROTOCOL_VERSION.text, **fields)
        else:
            log.info("protocol version", comparison=comparison.name.lower(), **fields)
