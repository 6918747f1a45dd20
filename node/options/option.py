"""One option of the node: how it is given, and what it sets."""

import inspect
from dataclasses import KW_ONLY, dataclass
from typing import Any, Generic, TypeVar

import msgspec

from rollup_node.node.options.value_types import BOOL, ValueType

T = TypeVar("T")
VARIABLE_PREFIX = "NODE_"


@dataclass(frozen=True)
class AnyOption:
    """One option, of any type. `default` is the text of its default value, None for no value; a boolean is off.

    `variable` is its environment variable, which follows from the name unless it is given. `field` is the field of a
    configuration that gets its value, written as an attribute of the class (`L1Config.poll_interval`); code
    reads those without one by name. `old_names` are further flags, each with its variable. `warning` is logged when it
    is set. A `secret` is not shown in errors. Raises TypeError when `field` is no field of a msgspec Struct."""

    name: str
    value_type: ValueType[Any]
    help: str
    _: KW_ONLY
    default: str | None = None
    variable: str = ""
    field: Any = None
    old_names: tuple[tuple[str, str], ...] = ()
    hidden: bool = False
    secret: bool = False
    warning: str | None = None

    def __post_init__(self) -> None:
        if self.default is None and self.value_type is BOOL:
            object.__setattr__(self, "default", "false")
        if not self.variable:
            own = self.name.translate(str.maketrans(".-", "__")).upper()
            object.__setattr__(self, "variable", f"{VARIABLE_PREFIX}{own}")
        if self.field is not None and self.config_field is None:
            raise TypeError(f"option {self.name} sets {self.field!r}, which is no field of a Struct")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name, the present one first."""
        return (self.name, *(name for name, _ in self.old_names))

    @property
    def metavar(self) -> str:
        """What stands for its value in usage lines."""
        return self.value_type.label.split()[0].upper()

    @property
    def config_field(self) -> tuple[type[msgspec.Struct], str] | None:
        """The class and the name of `field`, or None when there is none."""
        if not inspect.ismemberdescriptor(self.field) or not issubclass(self.field.__objclass__, msgspec.Struct):
            return None
        return self.field.__objclass__, self.field.__name__


@dataclass(frozen=True)
class Option(AnyOption, Generic[T]):
    """A row of the option table.

    T ties the type of the value to that of the field: at run time the attribute of a Struct class is the descriptor
    of the field, but it is typed as its value."""

    value_type: ValueType[T]
    _: KW_ONLY
    field: T | None = None


def ignored(
    name: str,
    value_type: ValueType[Any],
    *,
    hidden: bool = True,
    warning: str = "it has no effect any more",
    **more: Any,
) -> AnyOption:
    """Return an option of op-node that is accepted, with a warning, and changes nothing."""
    return AnyOption(name, value_type, "No effect.", hidden=hidden, warning=warning, **more)


class Section:
    """A group of options in help and documentation."""

    def __init__(self, title: str, *options: AnyOption) -> None:
        self.title, self.options = title, options
