"""Profiles as the processes exchange them by files, and that of a node, put together from those of its processes."""

from collections.abc import Mapping

import msgspec

Stack = tuple[tuple[str, str, int], ...]
"""Function, file and line of each frame, the innermost first."""

MAX_SECONDS = 120
"""The longest time that a profile is recorded for."""

MAX_STACKS = 20_000
OTHER: Stack = (("(other stacks)", "", 0),)


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A stack with one value for each sample type of the profile, and labels."""

    stack: Stack
    values: tuple[int, ...]
    labels: tuple[tuple[str, str], ...] = ()


class Profile(msgspec.Struct, frozen=True, array_like=True):
    """`sample_types` are names with units.

    `period` is the distance of two samples in units of `period_type`, 0 where nothing is sampled; `began` is in Unix
    nanoseconds, `duration` in nanoseconds."""

    kind: str
    sample_types: tuple[tuple[str, str], ...]
    samples: tuple[Sample, ...] = ()
    period_type: tuple[str, str] = ("", "")
    period: int = 0
    began: int = 0
    duration: int = 0
    comments: tuple[str, ...] = ()


class ProfileRequest(msgspec.Struct, frozen=True, array_like=True):
    """What a process is asked for: a profile of a kind, over a time in seconds. A later request has a higher id."""

    id: int
    kind: str
    seconds: float


class StackTable:
    """Sums the values of equal stacks. Beyond MAX_STACKS of them the rest is one sample."""

    def __init__(self) -> None:
        self._values: dict[tuple[Stack, tuple[tuple[str, str], ...]], list[int]] = {}

    def add(self, stack: Stack, values: tuple[int, ...], labels: tuple[tuple[str, str], ...] = ()) -> None:
        """Add the values of a sample."""
        key = (stack, labels)
        if key not in self._values and len(self._values) >= MAX_STACKS:
            key = (OTHER, ())
        found = self._values.setdefault(key, [0] * len(values))
        for index, value in enumerate(values):
            found[index] += value

    def samples(self) -> tuple[Sample, ...]:
        """Return the sums."""
        return tuple(Sample(stack, tuple(values), labels) for (stack, labels), values in self._values.items())


def merge(profiles: Mapping[str, Profile], missing: tuple[str, ...] = ()) -> Profile | None:
    """Return the profile of a node from those of its processes, each sample with the label `process`.

    None without profiles. The processes in `missing` are named in a comment."""
    if not profiles:
        return None
    first = next(iter(profiles.values()))
    alike = {name: profile for name, profile in profiles.items() if profile.sample_types == first.sample_types}
    samples = tuple(
        msgspec.structs.replace(sample, labels=(("process", name), *sample.labels))
        for name, profile in alike.items()
        for sample in profile.samples
    )
    comments = tuple(dict.fromkeys(comment for profile in alike.values() for comment in profile.comments))
    if missing:
        comments = (*comments, f"no profile of: {', '.join(missing)}")
    return msgspec.structs.replace(
        first,
        samples=samples,
        began=min(profile.began for profile in alike.values()),
        duration=max(profile.duration for profile in alike.values()),
        comments=comments,
    )
