"""The fork table applied to a chain's activation times: one look-up per clock, and their order [CFG24, CFG25]."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from rollup_node.stages.protocol.forks.rules import Activation, EpochRules, L1InfoFormat, L1Rules, L2Rules
from rollup_node.stages.protocol.forks.table import ENGINE_FORKS, FORK_NAMES, FORKS, Fork

R = TypeVar("R", L1Rules, EpochRules, L2Rules)


class _Clock(Generic[R]):
    """The rules of one clock between consecutive activation times."""

    def __init__(self, first: R, changes: Sequence[tuple[int, Callable[[R], R] | None]]) -> None:
        """Apply `changes`, (activation time, change) in table order."""
        result = [(time, change) for time, change in changes if change is not None]
        self._times = sorted({time for time, _ in result})
        self._rules: list[R] = [first]
        for boundary in self._times:
            rules = first
            for time, change in result:
                if time <= boundary:
                    rules = change(rules)
            self._rules.append(rules)

    def at(self, time: int) -> R:
        return self._rules[bisect_right(self._times, time)]


class ForkSchedule:
    """Rules by time in seconds: forks without a time are never active, and activate no earlier one [CST1]."""

    def __init__(
        self, times: Mapping[str, int], block_time: int, channel_timeout: int, max_sequencer_drift: int
    ) -> None:
        self._block_time = block_time
        scheduled = [(fork, times[fork.name]) for fork in (*FORKS, *ENGINE_FORKS) if fork.name in times]
        self._l1 = _Clock(L1Rules(channel_timeout=channel_timeout), [(time, fork.l1) for fork, time in scheduled])
        first_epoch = EpochRules(max_sequencer_drift=max_sequencer_drift)
        self._epoch = _Clock(first_epoch, [(time, fork.epoch) for fork, time in scheduled])
        self._l2 = _Clock(L2Rules(), [(time, fork.l2) for fork, time in scheduled])
        self._scheduled = scheduled
        self._starts = sorted({time for _, time in scheduled})
        self._layouts = [L1InfoFormat.BEDROCK, *(self._newest_layout(start) for start in self._starts)]

    def l1(self, time: int) -> L1Rules:
        """Rules by the time of the L1 block being read."""
        return self._l1.at(time)

    def epoch(self, time: int) -> EpochRules:
        """Rules by the time of the L2 block's L1 origin."""
        return self._epoch.at(time)

    def l2(self, time: int) -> L2Rules:
        """Rules by the L2 block's own time."""
        return self._l2.at(time)

    def active(self, time: int) -> tuple[Fork, ...]:
        """Return the forks that are active in an L2 block of this time, in table order."""
        return tuple(fork for fork, start in self._scheduled if start <= time)

    def activating(self, time: int) -> tuple[Fork, ...]:
        """Return the forks whose activation block an L2 block of this time is, in table order [CST3 to CST8]."""
        before = time - self._block_time
        if before < 0 or bisect_right(self._starts, before) == bisect_right(self._starts, time):
            return ()
        return tuple(fork for fork, start in self._scheduled if before < start <= time)

    def activations(self, time: int) -> tuple[Activation, ...]:
        """Return what an L2 block of this time does because it activates forks, in table order."""
        forks = self.activating(time)
        return tuple(fork.activation for fork in forks if fork.activation is not None) if forks else ()

    def l1_info_format(self, time: int) -> L1InfoFormat:
        """Return the newest layout whose fork is active and does not activate in this block [LIN4, LIN10, LIN11]."""
        before = time - self._block_time
        return self._layouts[bisect_right(self._starts, time if before < 0 else before)]

    def _newest_layout(self, time: int) -> L1InfoFormat:
        """Of the forks active at `time`."""
        layouts = [fork.l1_info for fork in self.active(time) if fork.l1_info is not None]
        return layouts[-1] if layouts else L1InfoFormat.BEDROCK

    def switches_stages(self, old: int, new: int) -> bool:
        """Whether derivation replaces its stages between L1 blocks of these times.

        Only the first fork crossed counts: if Granite and Holocene activate together, Holocene's switch is missed, as
        in op-node [PS3, PS4]."""
        crossed = next((fork for fork, start in self._scheduled if old < start <= new), None)
        return crossed is not None and crossed.switches_stages


FIRST_CHECKED = FORK_NAMES.index("regolith")
FIRST_ALONE = FORK_NAMES.index("jovian")


def fork_order_error(times: Mapping[str, int], genesis_time: int) -> str | None:
    """Return op-node's text for the first violation of the fork order, or None.

    Every fork needs its predecessor at the same time or earlier; from Jovian on two forks may share a time only at or
    before genesis."""
    for index in range(FIRST_CHECKED + 1, len(FORK_NAMES)):
        prior, name = FORK_NAMES[index - 1 : index + 1]
        start, before = times.get(name), times.get(prior)
        if start is None:
            continue
        if before is None:
            return f"fork {name} set (to {start}), but prior fork {prior} missing"
        if before > start:
            return f"fork {name} set to {start}, but prior fork {prior} has higher offset {before}"
        if before == start > genesis_time and index >= FIRST_ALONE:
            return f"fork {name} set to {start}, but prior fork {prior} activates at the same time after genesis"
    return None


LAGOON = "lagoon"


def lagoon_from(times: Mapping[str, int]) -> int | None:
    """Return the Unix time from which blocks may have messages of other chains and a post-exec transaction [UPG20]."""
    return times.get(LAGOON)
