"""An options file in the making: settings by our names, and what has no counterpart [CMD17]."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rollup_node.node.options.errors import OptionError, WrongOptions, did_you_mean, error_lines, shown
from rollup_node.node.options.parsing import FLAGS, ParsedOptions
from rollup_node.node.options.rules import REQUIRED, RULES, broken
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.value_types import BOOL
from rollup_node.node.options.values import GivenTexts, NodeOptions, Values
from rollup_node.node.setup.bundles import option_of
from rollup_node.node.setup.plan import reject_wrong_options
from rollup_node.stages.protocol.forks.bundles import SELECTABLE
from rollup_node.tools.convert.sources import Source

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
                reject_wrong_options(ParsedOptions(values, ()))
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
