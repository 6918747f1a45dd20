"""Profiles as the processes exchange them, that of a node, and its encoding for pprof and for people."""

import contextlib
import gzip
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from rollup_node.stages.io.files.private_files import read_private_file, replace_private_file
from rollup_node.stages.protocol.errors import DECODE_ERRORS

Stack = tuple[tuple[str, str, int], ...]
"""Function, file and line of each frame, the innermost first."""

MAX_SECONDS = 120
"""The longest time that a profile is recorded for."""

MAX_STACKS = 20_000
OTHER: Stack = (("(other stacks)", "", 0),)

# Numbers of the fields, from proto/profile.proto of google/pprof.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD, _COMMENT = 9, 10, 11, 12, 13
_VARINT, _BYTES = 0, 2


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """A stack with one value for each sample type of the profile, and labels."""

    stack: Stack
    values: tuple[int, ...]
    labels: tuple[tuple[str, str], ...] = ()


class Profile(msgspec.Struct, frozen=True, array_like=True):
    """The samples of a kind, with the names and units of their values in `sample_types`.

    `period` is 0 where nothing is sampled; `began` is in Unix nanoseconds, `duration` in nanoseconds."""

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
        key = (stack, labels)
        if key not in self._values and len(self._values) >= MAX_STACKS:
            key = (OTHER, ())
        result = self._values.setdefault(key, [0] * len(values))
        for index, value in enumerate(values):
            result[index] += value

    def samples(self) -> tuple[Sample, ...]:
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


def encode(profile: Profile) -> bytes:
    """Return the gzip-compressed message."""
    return gzip.compress(_Encoder().encode(profile), 6, mtime=0)


def render_text(profile: Profile) -> str:
    """Return the profile for people: the totals, then each stack, the largest last value first."""
    names = ", ".join(f"{name} ({unit})" for name, unit in profile.sample_types)
    totals = [sum(sample.values[index] for sample in profile.samples) for index in range(len(profile.sample_types))]
    lines = [f"{profile.kind} profile: {names}; total {' '.join(map(str, totals))}"]
    lines += [f"# {comment}" for comment in profile.comments]
    for sample in sorted(profile.samples, key=lambda item: item.values[-1:], reverse=True):
        labels = " ".join(f"{key}={value}" for key, value in sample.labels)
        lines += ["", f"{' '.join(map(str, sample.values))} {labels}".rstrip()]
        lines += [f"    {function}  {file}:{line}" for function, file, line in sample.stack]
    return "\n".join(lines) + "\n"


class _Encoder:
    """The tables of one message: strings, functions and locations are numbered as they appear."""

    def __init__(self) -> None:
        self._strings = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._locations: dict[tuple[str, str, int], int] = {}

    def encode(self, profile: Profile) -> bytes:
        parts = [_field(_SAMPLE_TYPE, self._value_type(sample_type_)) for sample_type_ in profile.sample_types]
        for sample in profile.samples:
            labels = b"".join(
                _field(3, _number(1, self._string(key)) + _number(2, self._string(value)))
                for key, value in sample.labels
            )
            parts.append(_field(_SAMPLE, _packed(1, self._stack(sample.stack)) + _packed(2, sample.values) + labels))
        parts += [_number(_COMMENT, self._string(comment)) for comment in profile.comments]
        parts.append(_field(_PERIOD_TYPE, self._value_type(profile.period_type)))
        parts += [_field(_LOCATION, self._location(*item)) for item in self._locations.items()]
        parts += [_field(_FUNCTION, self._function(*item)) for item in self._functions.items()]
        parts += [_field(_STRINGS, text.encode("utf-8", "replace")) for text in self._strings]
        parts += [_number(_TIME, profile.began), _number(_DURATION, profile.duration), _number(_PERIOD, profile.period)]
        return b"".join(parts)

    def _string(self, text: str) -> int:
        return self._strings.setdefault(text, len(self._strings))

    def _value_type(self, name_and_unit: tuple[str, str]) -> bytes:
        name, unit = name_and_unit
        return _number(1, self._string(name)) + _number(2, self._string(unit))

    def _stack(self, stack: Stack) -> list[int]:
        numbers = []
        for frame in stack:
            function, file, _ = frame
            self._functions.setdefault((function, file), len(self._functions) + 1)
            numbers.append(self._locations.setdefault(frame, len(self._locations) + 1))
        return numbers

    def _location(self, frame: tuple[str, str, int], number: int) -> bytes:
        function, file, line = frame
        return _number(1, number) + _field(4, _number(1, self._functions[function, file]) + _number(2, line))

    def _function(self, name_and_file: tuple[str, str], number: int) -> bytes:
        name, file = (self._string(text) for text in name_and_file)
        return _number(1, number) + _number(2, name) + _number(3, name) + _number(4, file)


def _varint(value: int) -> bytes:
    result = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        result.append(value & 0x7F | 0x80)
        value >>= 7
    result.append(value)
    return bytes(result)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))


MAX_BYTES = 64 << 20
SUFFIX = ".profile"
_REQUEST = f"request{SUFFIX}"
AT_STOP = 0
"""In place of the id of a request: the profile of a process at its end."""


class ProfileFiles:
    """The files in the runtime directory by which the processes of a node exchange profiles.

    There is one request for all, one answer of each process, and one profile of each process at its end. Files that
    are missing, unreadable or of another form count as absent."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def request(self, request: ProfileRequest) -> None:
        """Ask all processes for a profile, in place of any earlier request. Raises OSError."""
        self.withdraw()
        replace_private_file(self._folder / _REQUEST, msgspec.msgpack.encode(request))

    def withdraw(self) -> None:
        """Remove the request, so that processes stop recording, and all answers. Raises OSError."""
        (self._folder / _REQUEST).unlink(missing_ok=True)
        for path in self._folder.glob(f"[1-9]*.*{SUFFIX}"):
            path.unlink(missing_ok=True)

    def requested_at(self) -> int:
        """When the last request was made, in nanoseconds, 0 if there is none: cheaper than reading it."""
        try:
            return os.stat(self._folder / _REQUEST).st_mtime_ns
        except OSError:
            return 0

    def read_request(self) -> ProfileRequest | None:
        with contextlib.suppress(OSError, *DECODE_ERRORS):
            return msgspec.msgpack.decode(read_private_file(self._folder / _REQUEST, 1 << 10), type=ProfileRequest)
        return None

    def answer(self, request_id: int, process: str, profile: Profile) -> None:
        """Write a profile, without samples if it is over MAX_BYTES; a folder that no longer exists is ignored."""
        encoded = msgspec.msgpack.encode(profile)
        if len(encoded) > MAX_BYTES:
            left_out = f"the samples of {process} are left out: {len(encoded)} bytes, more than {MAX_BYTES}"
            shortened = msgspec.structs.replace(profile, samples=(), comments=(*profile.comments, left_out))
            encoded = msgspec.msgpack.encode(shortened)
        with contextlib.suppress(OSError):
            replace_private_file(self._path(request_id, process), encoded)

    def remove_answer(self, request_id: int, process: str) -> None:
        """Remove an answer that is no longer awaited."""
        with contextlib.suppress(OSError):
            self._path(request_id, process).unlink()

    def read_answer(self, request_id: int, process: str) -> Profile | None:
        with contextlib.suppress(OSError, *DECODE_ERRORS):
            return msgspec.msgpack.decode(read_private_file(self._path(request_id, process), MAX_BYTES), type=Profile)
        return None

    def _path(self, request_id: int, process: str) -> Path:
        return self._folder / f"{request_id}.{process}{SUFFIX}"
