"""The protocol versions of L1: told to the engine, compared, and perhaps a reason to halt [PRV3 to PRV7]."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from rollup_node.stages.io.log.logger import get_logger
from rollup_node.stages.io.metrics.meter import Meter
from rollup_node.stages.io.task import PeriodicTask
from rollup_node.stages.messages.codes import Code
from rollup_node.stages.messages.engine import ForkDoubt
from rollup_node.stages.messages.l1 import RuntimeConfig
from rollup_node.stages.protocol.errors import HaltError, TemporaryError
from rollup_node.stages.protocol.protocol_version import LEVELS, OWN_VERSION, compare, must_halt, shown
from rollup_node.stages.protocol.types import ZERO_HASH, Hash

log = get_logger("engine")

IDLE_SECONDS = 3600.0
REPEAT_SECONDS = 600.0
ANNOUNCE_SECONDS = 2.0
"""How long the halt is published before the process ends: published states are repeated at least every second."""

Signal = Callable[[Hash, Hash], Awaitable[Hash | None]]
"""Passes the recommended and the required version on to the engine; returns the version of the engine, None if it has
no method for that."""
DAY_SECONDS, RETRY_SECONDS = 86_400.0, 60.0


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


class ForkWatch:
    """`doubts` asks the engine, `publish` takes what it finds."""

    def __init__(
        self, doubts: Callable[[], Awaitable[Sequence[ForkDoubt]]], publish: Callable[[Sequence[ForkDoubt]], None]
    ) -> None:
        self._doubts, self._publish = doubts, publish
        self.task = PeriodicTask("forks of the engine", self._step)

    async def _step(self) -> float:
        try:
            result = await self._doubts()
        except TemporaryError:
            # Other work says that the engine is away.
            return RETRY_SECONDS
        self._publish(result)
        return DAY_SECONDS
