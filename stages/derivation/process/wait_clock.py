"""How long derivation waited for each of its neighbours, and how long it worked itself [LOG17]."""

import time
from collections.abc import Callable

from rollup_node.stages.derivation.pipeline import outputs
from rollup_node.stages.derivation.pipeline.deriver import Output
from rollup_node.stages.messages.derivation import DerivationWaits


class WaitClock:
    """Adds the time between two changes of what derivation does, by a monotonic `clock` in seconds, to what it did."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = dict.fromkeys(DerivationWaits.__struct_fields__, 0.0)
        self._current: str | None = None
        self._since = 0.0

    @property
    def waits(self) -> DerivationWaits:
        """Whole seconds so far: a status that says more would be published all the time."""
        return DerivationWaits(**{name: int(seconds) for name, seconds in self._seconds.items()})

    def works(self) -> None:
        """Note that derivation works from now on."""
        self._change("derivation")

    def waits_for(self, need: Output | None) -> None:
        """Note that derivation waits for what meets its need; without one for the engine, which starts it."""
        match need:
            case outputs.NeedL1Block() | outputs.NeedChallenges():
                self._change("l1")
            case outputs.NeedBlobs() | outputs.NeedInput():
                self._change("blobs")
            case outputs.NeedDecoded():
                self._change("compute")
            case _:
                self._change("engine")

    def rests(self) -> None:
        """Note that derivation has read all of L1."""
        self._change(None)

    def _change(self, current: str | None) -> None:
        now = self._clock()
        if self._current is not None:
            self._seconds[self._current] += now - self._since
        self._current, self._since = current, now
