"""From option values to configurations: the one path from a row of the option table to the field that it sets."""

from collections import defaultdict
from typing import TypeVar

import msgspec

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values

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
