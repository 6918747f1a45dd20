"""A profile in the format of pprof, a protobuf message in gzip, and as text [LIF17]."""

import gzip
from collections.abc import Iterable

from rollup_node.stages.io.profiling.profile import Profile, Stack

# Numbers of the fields, from proto/profile.proto of google/pprof.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRINGS = 1, 2, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD, _COMMENT = 9, 10, 11, 12, 13
_VARINT, _BYTES = 0, 2


def encode(profile: Profile) -> bytes:
    """Return the gzip-compressed message."""
    return gzip.compress(_Encoder().encode(profile), 6, mtime=0)


def render_text(profile: Profile) -> str:
    """Return the profile for people: the totals, then each stack, the largest last value first."""
    names = ", ".join(f"{name} ({unit})" for name, unit in profile.sample_types)
    totals = [sum(sample.values[index] for sample in profile.samples) for index in range(len(profile.sample_types))]
    lines = [f"{profile.kind} profile: {names}; total {' '.join(map(str, totals))}"]
    lines += [f"# {comment}" for comment in profile.comments]
    for sample in sorted(profile.samples, key=lambda each: each.values[-1:], reverse=True):
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
        """Return the message."""
        parts = [_field(_SAMPLE_TYPE, self._value_type(each)) for each in profile.sample_types]
        for sample in profile.samples:
            labels = b"".join(
                _field(3, _number(1, self._string(key)) + _number(2, self._string(value)))
                for key, value in sample.labels
            )
            parts.append(_field(_SAMPLE, _packed(1, self._stack(sample.stack)) + _packed(2, sample.values) + labels))
        parts += [_number(_COMMENT, self._string(comment)) for comment in profile.comments]
        parts.append(_field(_PERIOD_TYPE, self._value_type(profile.period_type)))
        parts += [_field(_LOCATION, self._location(*each)) for each in self._locations.items()]
        parts += [_field(_FUNCTION, self._function(*each)) for each in self._functions.items()]
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
    found = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _field(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _field(field, b"".join(map(_varint, values)))
