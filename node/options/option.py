"""One option of the node: how it is given, and what it sets."""

import inspect
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from rollup_node.node.options.value_types import ValueType

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AnyOption:
    """One option, of any type. `default` is the text of its default value, None for no value.

    What it sets: `field` is the field of a configuration that gets its value, written as an attribute of the class
    (`L1Config.poll_interval`). `used_by` are the functions that read it otherwise, as `module:function` below
    `rollup_node.node`. `old_names` are further flags, each with its variable. `warning` is logged when it is set. A
    `secret` is not shown in errors. Raises TypeError when `field` is no field of a msgspec Struct."""

    name: str
    value_type: ValueType[Any]
    default: str | None
    variable: str
    help: str
    field: Any = None
    used_by: tuple[str, ...] = ()
    old_names: tuple[tuple[str, str], ...] = ()
    hidden: bool = False
    secret: bool = False
    warning: str | None = None

    def __post_init__(self) -> None:
        if self.field is not None and self.config_field is None:
            raise TypeError(f"option {self.name} sets {self.field!r}, which is no field of a Struct")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, the present one first."""
        return (self.name, *(name for name, _ in self.old_names))

    @property
    def config_field(self) -> tuple[type[msgspec.Struct], str] | None:
        """The class and the name of `field`, or None when there is none."""
        if not inspect.ismemberdescriptor(self.field) or not issubclass(self.field.__objclass__, msgspec.Struct):
            return None
        return self.field.__objclass__, self.field.__name__


@dataclass(frozen=True, kw_only=True)
class Option(AnyOption, Generic[T]):
    """A row of the option table.

    T ties the type of the value to that of the field: at run time the attribute of a Struct class is the descriptor
    of the field, but it is typed as its value."""

    value_type: ValueType[T]
    field: T | None = None


@dataclass(frozen=True)
class Section:
    """A group of options in help and documentation."""

    title: str
    options: tuple[AnyOption, ...]
