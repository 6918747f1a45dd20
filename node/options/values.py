"""The values of all options, and where each came from."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rollup_node.node.options.errors import OptionError, shown
from rollup_node.node.options.model import Option
from rollup_node.node.options.table import OPTIONS


class Given(NamedTuple):
    """The texts of an option and their source, for errors: `flag --l1`, `variable NODE_L1_ETH_RPC (--l1)`.
    `split` says that commas separate the items of a list."""

    texts: tuple[str, ...]
    source: str
    split: bool


class Values:
    """Values by option name; what was not given has its default."""

    def __init__(self, given: Mapping[str, Given]) -> None:
        self._given = given
        self._values = {name: _value(option, given.get(name)) for name, option in OPTIONS.items()}

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def given(self, name: str) -> bool:
        """Whether it was set by a flag, a variable or the file."""
        return name in self._given

    def source(self, name: str) -> str:
        """Who set it, for error lines; its flag when nobody did."""
        return self._given[name].source if name in self._given else f"flag --{name}"

    def text(self, name: str) -> str | None:
        """The text that was given, None for none."""
        return ",".join(self._given[name].texts) if name in self._given else None

    def names_given(self) -> list[str]:
        """The options that were set, in the table's order."""
        return [name for name in OPTIONS if name in self._given]


def _value(option: Option, given: Given | None) -> Any:
    if given is not None:
        items = _items(given) if option.kind.many else (given.texts[-1],)
        values = tuple(_read(option, text, given.source) for text in items)
    elif option.default is None:
        return () if option.kind.many else None
    else:
        texts = option.default.split(",") if option.kind.many else [option.default]
        values = tuple(option.kind.read(text) for text in texts)
    return values if option.kind.many else values[0]


def _items(given: Given) -> tuple[str, ...]:
    texts = (part for text in given.texts for part in (text.split(",") if given.split else (text,)))
    return tuple(text.strip() for text in texts if text.strip())


def _read(option: Option, text: str, source: str) -> Any:
    try:
        return option.kind.read(text)
    except ValueError:
        value = "" if option.secret else f" {shown(text)}"
        raise OptionError(f"invalid value{value} for {source}: expected {option.kind.expected}") from None
