"""The options file: TOML whose keys are option names, or tables within tables [OPT1]."""

import tomllib
from collections.abc import Iterator
from typing import Any, TextIO

import configargparse

from rollup_node.node.options.errors import OptionError, WrongOptions, did_you_mean, reject_end_of_options, shown
from rollup_node.node.options.table import OPTIONS
from rollup_node.stages.protocol.texts import one_line

MAX_FILE = 1 << 20
"""Characters."""
MAX_BYTES = 4 * (MAX_FILE + 1)
MAX_BITS = 512
OWN_VALUE = "value"
"""The key that sets the option named like its table: `[l1] value = ...` sets `l1`."""

_BY_NAME = {name: option for option in OPTIONS.values() for name in option.names}


class OptionsFile(configargparse.ConfigFileParser):  # type: ignore[misc]
    """The parser that ConfigArgParse calls: texts by option name, as on a command line."""

    def get_syntax_description(self) -> str:
        """One sentence for the help text."""
        return "The file is TOML; its keys are option names."

    def parse(self, stream: TextIO) -> dict[str, str | list[str]]:
        """Return the options in an open file. Raises OptionError, which names the file, for anything invalid."""
        name = str(getattr(stream, "name", "the options file"))
        try:
            text = stream.read(MAX_FILE + 1)
            if len(text) > MAX_FILE:
                raise OptionError(f"options file {name} is longer than {MAX_FILE} characters")
            settings = list(_flat(tomllib.loads(text), ""))
        except OSError as error:
            raise OptionError(f"options file {name} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            hint = _HINT if "overwrite" in str(error) or "mutate" in str(error) else ""
            raise OptionError(f"options file {name} is not TOML: {one_line(str(error))}{hint}") from None
        values: dict[str, str | list[str]] = {}
        errors = []
        for key, value in settings:
            try:
                values[key] = _checked(key, value, name)
            except OptionError as error:
                errors.append(str(error))
        if errors:
            raise WrongOptions(errors)
        return values


def _checked(key: str, value: Any, name: str) -> str | list[str]:
    if key not in _BY_NAME:
        raise OptionError(f"unknown option {shown(key)} in file {name}{did_you_mean(key, _BY_NAME)}")
    if key == "config":
        raise OptionError(f"option config in file {name}: a file cannot name another file")
    texts = _texts(key, value, name)
    for text in texts if isinstance(texts, list) else [texts]:
        reject_end_of_options(text, f"{key} in file {name}")
    return texts


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
    if isinstance(value, list) and _BY_NAME[key].value_type.is_list and all(isinstance(item, str) for item in value):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | float) or (isinstance(value, int) and value.bit_length() <= MAX_BITS):
        return str(value)
    expected = _BY_NAME[key].value_type.expected
    kind = "number so long" if isinstance(value, int) else type(value).__name__
    raise OptionError(f"option {key} in file {name} cannot be a {kind}: expected {expected}")
