"""What the engine process does with the protocol versions of L1."""

from types import SimpleNamespace

import pytest

from rollup_node.stages.engine.process import protocol_versions
from rollup_node.stages.engine.process.protocol_versions import (
    OWN_VERSION,
    ProtocolVersion,
    ProtocolVersions,
    VersionDelta,
    compare,
    decode,
    must_halt,
    shown,
)
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.protocol.errors import HaltError, TemporaryError
from rollup_node.stages.protocol.types import ZERO_ADDRESS

OWN, NEXT, PATCH = (ProtocolVersion(*numbers).encode() for numbers in ((9,), (10,), (9, 0, 1)))


class Versions:
    """The object under test with an engine that supports `engine`.

    None for one that does not answer, or has no method for it if `lacks_method`."""

    def __init__(self, level: str | None = None, engine: bytes | None = OWN) -> None:
        self.engine, self.meter, self.lacks_method = engine, Meter("engine"), False
        self.signalled: list[tuple[bytes, bytes]] = []
        self.announced = 0
        self.lines: list[Record] = []
        log.configure("engine", Level.INFO, self.lines.append)
        self.versions = ProtocolVersions(level, self._signal, self._announce, self.meter)

    async def _signal(self, recommended: bytes, required: bytes) -> bytes | None:
        self.signalled.append((recommended, required))
        if self.engine is None and not self.lacks_method:
            raise TemporaryError("busy")
        return self.engine

    def _announce(self) -> None:
        self.announced += 1

    async def update(self, required: bytes, recommended: bytes = OWN) -> None:
        """L1 signals these versions, and the task runs."""
        self.versions.update(RuntimeConfig(ZERO_ADDRESS, required, recommended))
        await self.versions.task.step()

    def written(self, level: Level) -> list[str]:
        return [line.message for line in self.lines if line.level is level]


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol_versions, "ANNOUNCE_SECONDS", 0.0)


async def test_versions_are_passed_on_and_compared() -> None:
    """[PRV3, PRV4]"""
    harness = Versions(engine=PATCH)
    await harness.update(required=PATCH, recommended=OWN)
    assert harness.signalled == [(OWN, PATCH)]
    text = harness.meter.text().decode()
    for kind, delta in (("local_required", -2), ("local_recommended", 0), ("engine_required", 0)):
        assert f'protocol_version_delta{{type="{kind}"}} {delta:.1f}' in text
    assert 'protocol_version_delta{type="engine_recommended"} 2.0' in text
    assert harness.written(Level.ERROR) == ["the required protocol version is newer"]
    labels = 'local="v9.0.0",recommended="v9.0.0",required='
    assert f'protocol_versions{{engine="v9.0.1",{labels}"v9.0.1"}} 1.0' in text
    harness.engine = None
    await harness.update(required=NEXT, recommended=OWN)
    text = harness.meter.text().decode()
    assert f'protocol_versions{{engine="v9.0.1",{labels}"v9.0.1"}} 0.0' in text
    assert f'protocol_versions{{engine="unknown",{labels}"v10.0.0"}} 1.0' in text


async def test_the_same_versions_are_signalled_once_in_ten_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """[PRV3]: an engine that was replaced meanwhile gets them too."""
    now = 1000.0
    monkeypatch.setattr(protocol_versions, "time", SimpleNamespace(monotonic=lambda: now))
    harness = Versions()
    for now, count in ((1000.0, 1), (1000.1, 1), (1599.9, 1), (1600.0, 2), (1600.1, 2), (2199.9, 2), (2200.0, 3)):
        await harness.update(OWN)
        assert harness.signalled == [(OWN, OWN)] * count, now
    await harness.update(PATCH)
    await harness.update(bytes(32), bytes(32))
    assert harness.signalled[3:] == [(OWN, PATCH)]


async def test_an_engine_that_fails_is_a_warning() -> None:
    """[PRV3]"""
    harness = Versions(engine=None)
    await harness.update(OWN)
    assert harness.written(Level.WARN) == ["failed to signal protocol versions to the execution engine"]
    assert "engine_required" not in harness.meter.text().decode()


async def test_an_engine_without_the_method_is_said_once_and_the_node_halts_without_it() -> None:
    """[PRV3, PRV5] op-reth."""
    harness = Versions("major", engine=None)
    harness.lacks_method = True
    text = "the execution engine has no engine_signalSuperchainV1, protocol versions are compared without it"
    for required in (OWN, PATCH, OWN):
        await harness.update(required)
    assert harness.written(Level.INFO).count(text) == 1 and not harness.written(Level.WARN)
    assert 'protocol_versions{engine="unknown",' in harness.meter.text().decode()
    with pytest.raises(HaltError, match=r"L1 requires protocol version v10\.0\.0"):
        await harness.update(NEXT)
    assert harness.announced == 1
    harness.engine = OWN
    await harness.update(OWN)
    harness.engine = None
    await harness.update(PATCH)
    assert harness.written(Level.INFO).count(text) == 2, "the engine was replaced by another one"


@pytest.mark.option("rollup.halt", by="level")
@pytest.mark.parametrize(("level", "required"), [("major", NEXT), ("patch", PATCH)])
async def test_a_halt_is_published_and_ends_the_process(level: str, required: bytes) -> None:
    """[PRV5 to PRV7] The versions are signalled to the engine before."""
    harness = Versions(level)
    with pytest.raises(HaltError, match=r"this node supports v9\.0\.0"):
        await harness.update(required)
    assert (harness.announced, harness.signalled) == (1, [(OWN, required)])
    await Versions("major").update(PATCH)
    await Versions("none").update(NEXT)


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


@pytest.mark.parametrize(("level", "halting"), [(None, 0), ("none", 0), ("major", 1), ("minor", 2), ("patch", 3)])
def test_the_level_decides_which_outdated_version_halts(level: str | None, halting: int) -> None:
    required = [version(10), version(9, 1), version(9, 0, 1), version(9), version(8), bytes(32), b"\1" + bytes(31)]
    assert [must_halt(level, item) for item in required] == [True] * halting + [False] * (7 - halting)
