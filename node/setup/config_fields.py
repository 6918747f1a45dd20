"""From option values to configurations: the one path from a row of the option table to the field that it sets."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values

C = TypeVar("C", bound=msgspec.Struct)
FieldOptions = Mapping[type[msgspec.Struct], Mapping[str, AnyOption]]


class ConfigFieldError(Exception):
    """A configuration and the option table contradict each other: a bug, found when the node starts."""


def field_options(options: Iterable[AnyOption]) -> FieldOptions:
    """Return the options that set a field, by class and name of the field.

    Raises ConfigFieldError when two set the same."""
    found: dict[type[msgspec.Struct], dict[str, AnyOption]] = defaultdict(dict)
    for option in options:
        if option.config_field is not None:
            config_type, field = option.config_field
            other = found[config_type].setdefault(field, option)
            if other is not option:
                raise ConfigFieldError(f"{config_type.__name__}.{field} is set by {other.name} and by {option.name}")
    return found


_FIELD_OPTIONS = field_options(OPTIONS.values())


def build_config(config_type: type[C], values: Values, /, **computed: object) -> C:
    """Return a configuration whose fields have the values of their options.

    `computed` gives fields without an option, and the others keep their defaults. Raises ConfigFieldError for a field
    that does not exist, is set twice, is missing, or gets a value of another type."""
    return filled_config(config_type, _FIELD_OPTIONS, values, computed)


def filled_config(
    config_type: type[C], options: FieldOptions, values: Mapping[str, Any] | Values, computed: Mapping[str, object]
) -> C:
    """Return the same for any options."""
    by_field = options.get(config_type, {})
    fields = {field.name: field for field in msgspec.structs.fields(config_type)}
    name = config_type.__name__
    if unknown := sorted(computed.keys() - fields.keys()):
        raise ConfigFieldError(f"{name} has no field {', '.join(unknown)}")
    if twice := sorted(computed.keys() & by_field.keys()):
        raise ConfigFieldError(f"{name}.{twice[0]} is computed and set by option {by_field[twice[0]].name}")
    found = {field: values[option.name] for field, option in by_field.items()} | dict(computed)
    if missing := [field.name for field in fields.values() if field.required and field.name not in found]:
        raise ConfigFieldError(f"{name} lacks {', '.join(missing)}: neither an option nor the caller sets it")
    for field, value in found.items():
        try:
            msgspec.convert(value, fields[field].type)
        except msgspec.ValidationError as error:
            source = f" (option {by_field[field].name})" if field in by_field else ""
            raise ConfigFieldError(f"{name}.{field} cannot be {value!r}{source}: {error}") from None
    return config_type(**found)
