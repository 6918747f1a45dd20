"""The options file: TOML with option names as keys, or as tables within tables."""

import tomllib
from collections.abc import Iterator
from typing import Any, TextIO

import configargparse

from rollup_node.node.options.errors import OptionError, refuse_mark, shown
from rollup_node.node.options.nearest import did_you_mean
from rollup_node.node.options.table import OPTIONS

LONGEST_FILE = 1 << 20
MOST_BITS = 512
OWN_VALUE = "value"
"""The key by which a table gives the option of its own name: `[l1] value = ...` is `l1`."""

_BY_NAME = {name: option for option in OPTIONS.values() for name in option.names}


class OptionsFile(configargparse.ConfigFileParser):  # type: ignore[misc]
    """The reader that ConfigArgParse asks; gives texts by option name, as a command line would."""

    def get_syntax_description(self) -> str:
        """One sentence for help texts."""
        return "The file is TOML; its keys are option names."

    def parse(self, stream: TextIO) -> dict[str, str | list[str]]:
        """The options of an open file; OptionError with the file's name for anything wrong in it."""
        name = str(getattr(stream, "name", "the options file"))
        try:
            text = stream.read(LONGEST_FILE + 1)
            if len(text) > LONGEST_FILE:
                raise OptionError(f"options file {name} is longer than {LONGEST_FILE} characters")
            settings = list(_flat(tomllib.loads(text), ""))
        except OSError as error:
            raise OptionError(f"options file {name} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            hint = _HINT if "overwrite" in str(error) or "mutate" in str(error) else ""
            raise OptionError(f"options file {name} is not TOML: {_one_line(error)}{hint}") from None
        values: dict[str, str | list[str]] = {}
        for key, value in settings:
            if key not in _BY_NAME:
                raise OptionError(f"unknown option {shown(key)} in file {name}{did_you_mean(key, _BY_NAME)}")
            if key == "config":
                raise OptionError(f"option config in file {name}: a file cannot name another file")
            texts = values[key] = _texts(key, value, name)
            for text in texts if isinstance(texts, list) else [texts]:
                refuse_mark(text, f"{key} in file {name}")
        return values


_HINT = '; where one option\'s name starts another\'s, quote both: "l1" = "..." and "l1.beacon" = "..."'


def _flat(table: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif key == OWN_VALUE and prefix:
            yield prefix[:-1], value
        else:
            yield prefix + key, value


def _texts(key: str, value: Any, name: str) -> str | list[str]:
    if isinstance(value, list) and _BY_NAME[key].kind.many and all(isinstance(item, str) for item in value):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | float) or (isinstance(value, int) and value.bit_length() <= MOST_BITS):
        return str(value)
    expected = _BY_NAME[key].kind.expected
    kind = "number so long" if isinstance(value, int) else type(value).__name__
    raise OptionError(f"option {key} in file {name} cannot be a {kind}: expected {expected}")


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
