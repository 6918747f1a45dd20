"""The fork table laid over a chain's activation times: three clocks, three look-ups."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from rollup_node.stages.protocol.forks.rules import Activation, EpochRules, L1InfoFormat, L1Rules, L2Rules
from rollup_node.stages.protocol.forks.table import FORKS, Fork

R = TypeVar("R", L1Rules, EpochRules, L2Rules)


class _Clock(Generic[R]):
    """The rules of one clock between consecutive activation times."""

    def __init__(
        self, first: R, forks: Sequence[tuple[Fork, int]], changes: Callable[[Fork], Mapping[str, Any]]
    ) -> None:
        self._times = sorted({time for fork, time in forks if changes(fork)})
        self._rules: list[R] = [first]
        for boundary in self._times:
            active = {k: v for fork, time in forks if time <= boundary for k, v in changes(fork).items()}
            self._rules.append(msgspec.structs.replace(first, **active))

    def at(self, time: int) -> R:
        return self._rules[bisect_right(self._times, time)]


class ForkSchedule:
    """Rules by time in seconds. A fork without a time is never active, and a later fork does not imply an earlier
    one (op-node's behaviour; attributes-rules 0)."""

    def __init__(
        self, times: Mapping[str, int], block_time: int, channel_timeout: int, max_sequencer_drift: int
    ) -> None:
        self._block_time = block_time
        self._forks = [(fork, times.get(fork.name)) for fork in FORKS]
        set_forks = [(fork, time) for fork, time in self._forks if time is not None]
        self._l1 = _Clock(L1Rules(channel_timeout=channel_timeout), set_forks, lambda fork: fork.l1)
        self._epoch = _Clock(EpochRules(max_sequencer_drift=max_sequencer_drift), set_forks, lambda fork: fork.epoch)
        self._l2 = _Clock(L2Rules(), set_forks, lambda fork: fork.l2)
        self._set_forks = set_forks
        self._starts = sorted({time for _, time in set_forks})
        self._layouts = [L1InfoFormat.BEDROCK, *(self._newest_layout(start) for start in self._starts)]

    def l1(self, time: int) -> L1Rules:
        """Rules by the time of the L1 block being read."""
        return self._l1.at(time)

    def epoch(self, time: int) -> EpochRules:
        """Rules by the time of the L1 origin of the L2 block."""
        return self._epoch.at(time)

    def l2(self, time: int) -> L2Rules:
        """Rules by the L2 block's own time."""
        return self._l2.at(time)

    def active(self, time: int) -> tuple[Fork, ...]:
        """The forks that are active in an L2 block of this time, in table order."""
        return tuple(fork for fork, start in self._set_forks if start <= time)

    def activating(self, time: int) -> tuple[Fork, ...]:
        """The forks whose activation block an L2 block of this time is, in table order (attributes-rules 0.1)."""
        before = time - self._block_time
        if before < 0 or bisect_right(self._starts, before) == bisect_right(self._starts, time):
            return ()
        return tuple(fork for fork, start in self._set_forks if before < start <= time)

    def activations(self, time: int) -> tuple[Activation, ...]:
        """What happens in an L2 block of this time because forks activate in it."""
        forks = self.activating(time)
        return tuple(fork.activation for fork in forks if fork.activation is not None) if forks else ()

    def l1_info_format(self, time: int) -> L1InfoFormat:
        """The newest layout whose fork is active and not activating in this block (attributes-rules 2.2)."""
        before = time - self._block_time
        return self._layouts[bisect_right(self._starts, time if before < 0 else before)]

    def _newest_layout(self, time: int) -> L1InfoFormat:
        """Of the forks active at `time`."""
        layouts = [fork.l1_info for fork in self.active(time) if fork.l1_info is not None]
        return layouts[-1] if layouts else L1InfoFormat.BEDROCK

    def switches_stages(self, old: int, new: int) -> bool:
        """Whether derivation changes its stages between L1 blocks of these times: only if the first fork crossed says
        so (derivation-rules PS3, PS4)."""
        fork = self._first_crossed(old, new)
        return fork is not None and "channel_stage" in fork.l1

    def _first_crossed(self, old: int, new: int) -> Fork | None:
        return next((fork for fork, start in self._set_forks if old < start <= new), None)
