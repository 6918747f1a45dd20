"""An options file in the making: settings by our names, what has no counterpart, and its text as TOML [CMD17, OPT1]."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from rollup_node.node.options.errors import OptionError, WrongOptions, did_you_mean, error_lines, shown
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.rules import REQUIRED, RULES, broken
from rollup_node.node.options.supernode import OWN, is_shared
from rollup_node.node.options.table import FLAGS, OPTIONS
from rollup_node.node.options.value_types import BOOL, read_boolean
from rollup_node.node.options.values import GivenTexts, NodeOptions, Values
from rollup_node.node.setup.bundles import option_of
from rollup_node.node.setup.plan import reject_wrong_options
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.protocol.forks.bundles import SELECTABLE
from rollup_node.tools.convert.sources import Source


def toml_lines(options: NodeOptions, hide: bool) -> Iterator[str]:
    """Yield a line for each option that is given, in the order of the table; those of a chain begin with `vn.CHAIN`.

    A secret becomes a comment that says so. With `hide`, for a terminal, so does what may be a key in an address.
    Raises SetupError for a text that TOML cannot hold."""
    yield from _lines(options.own, OWN, "", hide)
    first = next(iter(options.chains), "")
    for group, values in options.chains.items():
        shared = {name: option for name, option in OPTIONS.items() if not group or is_shared(name)}
        if group == first:
            yield from _lines(values, shared, "", hide)
        if group:
            own = {name: option for name, option in OPTIONS.items() if name not in shared}
            yield from _lines(values, own, f"vn.{group}.", hide)


def _lines(values: Values, options: Mapping[str, AnyOption], prefix: str, hide: bool) -> Iterator[str]:
    # A file cannot name another file.
    for name in [name for name in values.names_given() if name in options and name != "config"]:
        option = options[name]
        texts = values.items(name) if option.value_type.is_list else values.texts(name)
        yield toml_line(f"{prefix}{name}", option, texts, values.source(name), hide)


def toml_line(key: str, option: AnyOption, texts: Sequence[str], source: str, hide: bool) -> str:
    """Return the line of one option under a key, as toml_lines does."""
    if option.secret:
        return f"# {json.dumps(key)} is a secret, and is not copied from {source}"
    if hide:
        texts = tuple(map(masked_address, texts))
    if option.value_type.is_list:
        value = f"[{', '.join(map(_text, texts))}]"
    elif option.value_type is BOOL:
        value = str(read_boolean(texts[-1])).lower()
    elif option.value_type.label == "int":
        value = str(int(texts[-1]))
    else:
        value = _text(texts[-1])
    return f"{json.dumps(key)} = {value}"


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SetupError("a value is not text in UTF-8, and cannot be written into an options file") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


MASK = "***"


def masked_address(text: str) -> str:
    """Return an address without user, path and query, which hold the keys of providers, and other texts as they are."""
    if "://" not in text:
        return text
    try:
        parts = urlsplit(text)
    except ValueError:
        return MASK
    if parts.scheme not in ("http", "https", "ws", "wss"):
        return text
    host = parts.netloc.rpartition("@")[2]
    user = f"{MASK}@" if "@" in parts.netloc else ""
    rest = f"/{MASK}" if parts.path.strip("/") or parts.query or parts.fragment else ""
    return f"{parts.scheme}://{user}{host}{rest}"


FILES = ("rollup.config", "rollup.l1-chain-config", "interop.dependency-set", *map(option_of, SELECTABLE))
"""Options whose files a start reads: on the machine of a conversion they need not be."""


class Given(NamedTuple):
    """One option of the other node as it is given. `is_flag` is False for a variable."""

    name: str
    text: str
    place: str
    is_flag: bool = True


class Conversion:
    """Collects settings, notes on what has no counterpart, and errors: each a line that names its place."""

    def __init__(self, program: str) -> None:
        self.program = program
        self.notes: list[str] = []
        self.errors: list[str] = []
        self._settings: dict[str, list[Given]] = {}

    def add(self, name: str, setting: Given) -> None:
        """Add what is given for one of our options; of several for a single value the last counts."""
        own = FLAGS[name].name
        kept = self._settings.get(own, []) if OPTIONS[own].value_type.is_list and setting.is_flag else []
        # A flag overrides a variable.
        self._settings[own] = [*(one for one in kept if one.is_flag), setting._replace(name=own)]

    def default(self, name: str, text: str, why: str) -> None:
        """Set an option that the source does not, where the other node's default is not ours."""
        if name not in self._settings:
            self.add(name, Given(name, text, f"a default of {self.program}"))
            self.notes.append(f"{name} is set to {text}: {why}")

    def drop(self, setting: Given, why: str) -> None:
        """Note that an option is left out."""
        self.notes.append(f"{setting.place}: {setting.name} is left out: {why}")

    def has(self, name: str) -> bool:
        """Whether an option is set."""
        return name in self._settings

    def text(self, name: str) -> str:
        """Return the last text of an option that is set."""
        return self._settings[name][-1].text

    def replace(self, name: str, text: str, why: str) -> None:
        """Change the value of an option that is set, and note why."""
        setting = self._settings[name][-1]
        self._settings[name] = [setting._replace(text=text)]
        self.notes.append(f"{setting.place}: {name} is {text} in place of {setting.text}: {why}")

    def require(self, *names: str) -> None:
        """Note that the other node does not start without these, or without a chain."""
        missing = [name for name in names if name not in self._settings]
        if not {"network", "rollup.config"} & self._settings.keys():
            missing.append("network or rollup.config")
        self.errors += [f"{self.program} requires {name}: give the file that sets it too" for name in missing]

    def remove(self, name: str) -> Given:
        """Take an option out again and return what was given."""
        return self._settings.pop(name)[-1]

    def options(self) -> NodeOptions:
        """Return the options. Raises WrongOptions with a line for each thing that either node would refuse."""
        values = _ReadValues({name: _texts(settings) for name, settings in self._settings.items()})
        lines = [*self.errors, *values.errors]
        for rule in (rule for rule in RULES if rule not in REQUIRED):
            values.read.clear()
            lines += [self._with_place(line, values.read) for line in broken(rule, values)]
        if not lines and not any(values.given(name) for name in FILES):
            values.read.clear()
            try:
                reject_wrong_options(NodeOptions({"": values}))
            except OptionError as error:
                lines += [self._with_place(line, set()) for line in error_lines(error)]
        if lines:
            raise WrongOptions(lines)
        return NodeOptions({"": values})

    def _with_place(self, line: str, read: set[str]) -> str:
        """Add the places of the options that a line names, or else of those that its rule read."""
        if any(settings[-1].place in line for settings in self._settings.values()):
            return line
        named = [name for name in self._settings if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", line)]
        places = dict.fromkeys(self._settings[name][-1].place for name in self._settings if name in (named or read))
        return f"{', '.join(places)}: {line}" if places else line


class _ReadValues(Values):
    """Values that remember which of them were read."""

    def __init__(self, fields: Mapping[str, GivenTexts]) -> None:
        super().__init__(fields)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


def _texts(settings: list[Given]) -> GivenTexts:
    last = settings[-1]
    split = not last.is_flag or OPTIONS[last.name].value_type.split_flags
    return GivenTexts(tuple(one.text for one in settings), f"{last.name} ({last.place})", split)


def read_flags(source: Source, known: Mapping[str, bool], conversion: Conversion) -> Iterator[Given]:
    """Yield the flags of a command line as Go reads them; `known` has each with whether it is a boolean.

    What the program would refuse, or read otherwise than it looks, becomes an error of the conversion."""
    words = list(source.words)
    while words:
        word = words.pop(0)
        name, equals, text = word.text.removeprefix("-").removeprefix("-").partition("=")
        if not word.text.startswith("-") or not name:
            conversion.errors.append(
                f"{word.place}: {conversion.program} reads no flag from {shown(word.text)} on: booleans are --name=true"
            )
            return
        if name not in known:
            hint = did_you_mean(name, known, prefix="--")
            conversion.errors.append(f"{word.place}: {conversion.program} has no flag --{name[:120]}{hint}")
            if not equals and words and not words[0].text.startswith("-"):
                words.pop(0)
            continue
        if not equals and not known[name]:
            if not words:
                conversion.errors.append(f"{word.place}: flag --{name} needs a value")
                return
            text = words.pop(0).text
        yield Given(name, text if equals or not known[name] else "true", word.place)


def read_variables(source: Source, prefix: str, known: Mapping[str, str], conversion: Conversion) -> Iterator[Given]:
    """Yield the variables that the program reads; `known` has the option of each. Others with its prefix are noted."""
    for variable, word in source.variables.items():
        if variable in known and word.text:
            yield Given(known[variable], word.text, word.place, is_flag=False)
        elif variable.startswith(prefix) and variable not in known:
            conversion.notes.append(f"{word.place}: {variable} is left out: {conversion.program} does not read it")


def is_boolean(name: str) -> bool:
    """Whether an option of ours is a boolean."""
    return FLAGS[name].value_type is BOOL
