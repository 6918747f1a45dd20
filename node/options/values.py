"""The values of all options, and the source of each."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from rollup_node.node.options.errors import OptionError, ValueHint, shown, shown_url
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS


class GivenTexts(NamedTuple):
    """The texts given for an option and their `source` for errors; with `split`, items have commas between."""

    texts: tuple[str, ...]
    source: str
    split: bool


class Values:
    """Values of `options` by name, defaults included; reading one that `errors` names raises OptionError."""

    def __init__(self, fields: Mapping[str, GivenTexts], options: Mapping[str, AnyOption] = OPTIONS) -> None:
        self.fields, self._options = fields, options
        self._values: dict[str, Any] = {}
        self._invalid: dict[str, str] = {}
        for name, option in options.items():
            try:
                self._values[name] = _value(option, fields.get(name))
            except OptionError as error:
                self._invalid[name] = str(error)

    @property
    def names(self) -> Collection[str]:
        """Every option, in the order of the table."""
        return self._options.keys()

    @property
    def errors(self) -> tuple[str, ...]:
        """A line for each invalid value."""
        return tuple(self._invalid.values())

    def __getitem__(self, name: str) -> Any:
        if name in self._invalid:
            raise OptionError(self._invalid[name])
        return self._values[name]

    def given(self, name: str) -> bool:
        """Whether the option was set by a flag, a variable or the file."""
        return name in self.fields

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts given for an option: several for a list, otherwise the last; none when it was not set."""
        if name not in self.fields:
            return ()
        texts = self.fields[name].texts
        return texts if self._options[name].value_type.is_list else texts[-1:]

    def items(self, name: str) -> tuple[str, ...]:
        """Return the same texts with the items of a list apart."""
        is_list = self.given(name) and self._options[name].value_type.is_list
        return _items(self.fields[name]) if is_list else self.texts(name)

    def source(self, name: str) -> str:
        """Return the source of the option's value, for error lines; its flag when it was not set."""
        return self.fields[name].source if name in self.fields else f"flag --{name}"

    def with_texts(self, texts: Mapping[str, str], source: str) -> "Values":
        """Return the same values with these texts by option in place of what was given."""
        own = {name: GivenTexts((text,), source, False) for name, text in texts.items()}
        return Values({**self.fields, **own}, self._options)

    def names_given(self) -> list[str]:
        """Return the options that were set, in the order of the table."""
        return [name for name in self._options if name in self.fields]


class NodeOptions(NamedTuple):
    """The options of a node: the values of each chain by its group [LIF33], and a supernode's `own`.

    `warnings` are to be logged, `errors` a line for each wrong option. `texts` are all that was given by option, also
    what another source overrides, and what a supernode ignores or has no chain for. Without `has_file` the options file
    cannot be read, and what it sets is missing."""

    chains: Mapping[str, Values]
    own: Values = Values({}, {})
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    texts: tuple[tuple[AnyOption, tuple[str, ...]], ...] = ()
    has_file: bool = True

    @property
    def values(self) -> Values:
        """Those of the first chain, which is the only one of a node that is no supernode."""
        return next(iter(self.chains.values()))

    @property
    def lacks_names(self) -> bool:
        """Whether an option may seem to be missing because its name is misspelt, or has no value."""
        return any(line.startswith(("unknown", "flag --")) for line in self.errors)


def _value(option: AnyOption, given_texts: GivenTexts | None) -> Any:
    if given_texts is not None:
        items = _items(given_texts) if option.value_type.is_list else (given_texts.texts[-1],)
        values = tuple(_read(option, text, given_texts.source) for text in items)
    elif option.default is None:
        return () if option.value_type.is_list else None
    else:
        texts = option.default.split(",") if option.value_type.is_list else [option.default]
        values = tuple(option.value_type.read(text) for text in texts)
    return values if option.value_type.is_list else values[0]


def _items(given_texts: GivenTexts) -> tuple[str, ...]:
    texts = (part for text in given_texts.texts for part in (text.split(",") if given_texts.split else (text,)))
    return tuple(text.strip() for text in texts if text.strip())


def _read(option: AnyOption, text: str, source: str) -> Any:
    try:
        return option.value_type.read(text)
    except ValueError as error:
        is_url = "url" in option.value_type.label
        value = "" if option.secret else f" {shown_url(text) if is_url else shown(text)}"
        reason = str(error) if isinstance(error, ValueHint) else f"expected {option.value_type.expected}"
        raise OptionError(f"invalid value{value} for {source}: {reason}") from None


C = TypeVar("C", bound=msgspec.Struct)

FIELD_OPTIONS: dict[type[msgspec.Struct], dict[str, AnyOption]] = defaultdict(dict)
"""The options that set a field, by class and name of the field."""
for _option in OPTIONS.values():
    if _option.config_field is not None:
        FIELD_OPTIONS[_option.config_field[0]][_option.config_field[1]] = _option


def build_config(config_type: type[C], values: Values, /, **computed: object) -> C:
    """Return a configuration whose fields have the values of their options.

    `computed` gives fields without an option, and the others keep their defaults. Raises TypeError for a field that
    does not exist, is set twice or is missing, ValidationError for a value of another type: both are bugs."""
    fields = {field: values[option.name] for field, option in FIELD_OPTIONS[config_type].items()}
    config = config_type(**fields, **computed)
    msgspec.convert(fields | computed, config_type)
    return config
