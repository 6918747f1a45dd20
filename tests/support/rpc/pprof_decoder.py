"""Reads pprof's format: the fields that profiles of a node have, by their numbers in proto/profile.proto."""

import gzip
from dataclasses import dataclass
from typing import Any


@dataclass
class Decoded:
    """The stacks are (function, file, line), the innermost first."""

    sample_types: list[tuple[str, str]]
    samples: list[tuple[list[tuple[str, str, int]], list[int], dict[str, str]]]
    comments: list[str]
    period_type: tuple[str, str]
    numbers: dict[int, int]


def decode(data: bytes) -> Decoded:
    """Return a gzip-compressed profile."""
    fields = _fields(gzip.decompress(data))
    strings = [content.decode() for content in _all(fields, 6)]
    functions = {}
    for content in _all(fields, 5):
        result = _single(content)
        functions[result[1]] = (strings[result[2]], strings[result.get(4, 0)])
    locations = {}
    for content in _all(fields, 4):
        result = _single(content)
        line = _single(result[4])
        locations[result[1]] = (*functions[line[1]], line.get(2, 0))
    samples = []
    for content in _all(fields, 2):
        parts = _fields(content)
        labels = [_single(item) for item in _all(parts, 3)]
        stack = [locations[number] for item in _all(parts, 1) for number in _varints(item)]
        values = [number for item in _all(parts, 2) for number in _varints(item)]
        samples.append((stack, values, {strings[label[1]]: strings[label[2]] for label in labels}))
    types = [_pair(content, strings) for content in _all(fields, 1)]
    comments = [strings[number] for number in _all(fields, 13)]
    period_type = _pair(_all(fields, 11)[0], strings)
    return Decoded(types, samples, comments, period_type, {n: v for n, v in fields if isinstance(v, int) and n != 13})


def _pair(content: bytes, strings: list[str]) -> tuple[str, str]:
    result = _single(content)
    return strings[result.get(1, 0)], strings[result.get(2, 0)]


def _all(fields: list[tuple[int, Any]], number: int) -> list[Any]:
    return [value for field, value in fields if field == number]


def _single(data: bytes) -> dict[int, Any]:
    return dict(_fields(data))


def _fields(data: bytes) -> list[tuple[int, Any]]:
    fields: list[tuple[int, Any]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _varint(data, at)
        if key & 7 == 2:
            fields.append((key >> 3, data[at : at + value]))
            at += value
        else:
            assert key & 7 == 0
            fields.append((key >> 3, value))
    return fields


def _varints(data: bytes) -> list[int]:
    varints, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        varints.append(value)
    return varints


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
