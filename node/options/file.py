"""The options file: TOML or YAML whose keys are option names, or tables within tables [OPT1]."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, TextIO

import configargparse

from rollup_node.node.options.errors import OptionError, did_you_mean, reject_end_of_options, shown
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import FLAGS, OPTIONS
from rollup_node.stages.protocol.texts import one_line

MAX_FILE = 1 << 20
"""Characters."""
MAX_BYTES = 4 * (MAX_FILE + 1)
MAX_BITS = 512
OWN_VALUE = "value"
"""The key that sets the option named like its table: `[l1] value = ...` sets `l1`."""

MAX_PARTS = 20
"""Of a dotted key, and of values in each other."""
MAX_TOKENS = 50_000
MAX_SUGGESTIONS = 40
"""Of other names for unknown ones; each takes half a millisecond."""
_SECRETS = [name for option in OPTIONS.values() if option.secret for name in option.names]
_MANY_PARTS = re.compile(r"(?:[\w-]+\s*\.\s*){20}")
_PLACE = re.compile(r"\s*\(at line (\d+)(?:, column \d+)?\)")

ScopeOf = Callable[[str], tuple[str, Mapping[str, AnyOption]]]
"""Returns what stands before the name of an option, such as `vn.10.`, and the options that may follow."""


class OptionsFile(configargparse.ConfigFileParser):  # type: ignore[misc]
    """The parser that ConfigArgParse calls: texts by option name, as on a command line.

    `errors` has a line for each setting that is wrong, `settings` the others, until their reader clears them. They are
    of the class because ConfigArgParse makes the instance."""

    errors: ClassVar[list[str]] = []
    settings: ClassVar[list[tuple[str, str | list[str]]]] = []

    @staticmethod
    def scope_of(name: str) -> tuple[str, Mapping[str, AnyOption]]:
        """Return what stands before the name of an option, and the options that may follow: nothing, and all."""
        return "", FLAGS

    def get_syntax_description(self) -> str:
        """One sentence for the help text."""
        return "The file is TOML or YAML; its keys are option names."

    def parse(self, stream: TextIO) -> dict[str, str | list[str]]:
        """Return the options in an open file. Raises OptionError, which names the file, if it cannot be read."""
        name = str(getattr(stream, "name", "the options file"))
        values: dict[str, str | list[str]] = {}
        for key, value in read_settings(stream, name):
            if key in values:
                self.errors.append(f"option {key} is given twice in file {name}")
            prefix, options = self.scope_of(key)
            try:
                values[key] = _setting_texts(key, prefix, value, name, options, len(self.errors) < MAX_SUGGESTIONS)
                self.settings.append((key, values[key]))
            except OptionError as error:
                self.errors.append(str(error))
        return values


def read_settings(stream: TextIO, name: str) -> list[tuple[str, Any]]:
    """Return the settings of an open file by dotted key. Raises OptionError, which names the file."""
    return _settings(_text(stream, name), name)


def _text(stream: TextIO, name: str) -> str:
    try:
        text = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise OptionError(f"options file {name} cannot be read: {error.strerror}") from None
    except ValueError:
        raise OptionError(f"options file {name} is not text in UTF-8") from None
    if len(text) > MAX_FILE:
        raise OptionError(f"options file {name} is longer than {MAX_FILE} characters")
    if _MANY_PARTS.search(text):
        raise OptionError(f"options file {name} has a key of more than {MAX_PARTS} parts")
    return text


def _settings(text: str, name: str) -> list[tuple[str, Any]]:
    """Return the settings of a TOML file, or of a YAML file, of which JSON is a part."""
    is_yaml = name.endswith((".yaml", ".yml", ".json")) or text.lstrip()[:1] == "{"
    try:
        return list(_flat(_read_yaml(text) if is_yaml else tomllib.loads(text), ""))
    except RecursionError:
        raise OptionError(f"options file {name} is nested too deeply") from None
    except ValueError as error:
        hint = _HINT if "overwrite" in str(error) or "mutate" in str(error) else ""
        place = _PLACE.search(str(error))
        where = f"{name}, line {place[1]}" if place else name
        reason = one_line(_PLACE.sub("", str(error))).removesuffix("()").strip()
        if reason == r"Illegal character '\n'":
            reason = "a text has no closing quote"
        kind = "YAML" if is_yaml else "TOML"
        if not is_yaml and re.search(r"^[\w.-]+:(\s|$)", text, re.MULTILINE):
            hint = "; it looks like YAML, for which its name has to end with .yaml"
        raise OptionError(f"options file {where} is not {kind}: {reason}{hint}") from None


def _read_yaml(text: str) -> dict[str, Any]:
    """Return a mapping whose values are texts as they are written. Raises ValueError."""
    import yaml

    class Loader(yaml.BaseLoader):  # type: ignore[misc]
        """Refuses a key that is there twice, as TOML does."""

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [str(key.value) for key, _ in node.value]
            for index, (key, _) in enumerate(node.value):
                if str(key.value) in keys[:index]:
                    raise ValueError(f"{shown(str(key.value))} is there twice (at line {key.start_mark.line + 1})")
            result: dict[Any, Any] = super().construct_mapping(node, deep=deep)
            return result

    try:
        depth = 0
        for count, token in enumerate(yaml.scan(text)):
            kind = type(token).__name__
            depth += ("Start" in kind and "Stream" not in kind) - ("End" in kind and "Stream" not in kind)
            if depth > MAX_PARTS or count > MAX_TOKENS:
                raise ValueError("it is nested too deeply" if depth > MAX_PARTS else "it has too many values")
            if isinstance(token, yaml.AliasToken):
                raise ValueError("aliases are not read")
        settings = yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        line = f" (at line {error.problem_mark.line + 1})" if error.problem_mark else ""
        raise ValueError(f"{error.problem}{line}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None
    if not isinstance(settings, dict):
        raise ValueError("it has no options")
    return settings


def _setting_texts(
    key: str, prefix: str, value: Any, name: str, options: Mapping[str, AnyOption], suggest: bool
) -> str | list[str]:
    """Return the texts of a setting with that key in the file `name`, for one of `options`. Raises OptionError."""
    option = key.removeprefix(prefix)
    if option not in options:
        secret = next((secret for secret in _SECRETS if option.startswith(f"{secret}.")), None)
        text = f"{secret}.***" if secret else key
        hint = did_you_mean(option, options) if suggest else ""
        raise OptionError(f"unknown option {shown(text)} in file {name}{hint}")
    if option == "config":
        raise OptionError(f"option config in file {name}: a file cannot name another file")
    texts = _texts(key, options[option], value, name)
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


def _texts(key: str, option: AnyOption, value: Any, name: str) -> str | list[str]:
    if isinstance(value, list) and option.value_type.is_list:
        if all(isinstance(item, str) for item in value):
            return value
        if option.value_type.label == "list of int" and all(type(item) is int for item in value):
            return [str(item) for item in value if item.bit_length() <= MAX_BITS]
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | float) or (isinstance(value, int) and value.bit_length() <= MAX_BITS):
        return str(value)
    expected = option.value_type.expected
    kind = "number so long" if isinstance(value, int) else type(value).__name__
    raise OptionError(f"option {key} in file {name} cannot be a {kind}: expected {expected}")
