"""Options from environment variables: old names, the variable of two options, unknown names [OPT3, OPT5, OPT9]."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rollup_node.node.options.errors import reject_end_of_options
from rollup_node.node.options.nearest import did_you_mean
from rollup_node.node.options.table import OPTIONS, SHARED_VARIABLE, VARIABLE_PREFIX
from rollup_node.node.options.value_types import read_boolean

NODE_JS_VARIABLES = frozenset(
    f"{VARIABLE_PREFIX}{name}"
    for name in (
        *("ENV", "PATH", "OPTIONS", "EXTRA_CA_CERTS", "NO_WARNINGS", "DEBUG", "DISABLE_COLORS", "ICU_DATA"),
        *("PENDING_DEPRECATION", "REDIRECT_WARNINGS", "TLS_REJECT_UNAUTHORIZED", "V8_COVERAGE", "COMPILE_CACHE"),
        *("REPL_HISTORY", "PRESERVE_SYMLINKS", "TEST_CONTEXT", "USE_ENV_PROXY", "USE_SYSTEM_CA", "VERSION"),
    )
)
"""Variables of Node.js, which share our prefix: they cause no warning [OPT5]."""


class EnvironmentOptions(NamedTuple):
    """`values` by the option's own variable; `set_by` is the variable that was set, which may be an old name;
    `warnings` are lines to log."""

    values: dict[str, str]
    set_by: dict[str, str]
    warnings: tuple[str, ...]


def read_environment(environ: Mapping[str, str]) -> EnvironmentOptions:
    """The variables of options; an empty one counts as not set. Raises OptionError for the value `--`."""
    values: dict[str, str] = {}
    set_by: dict[str, str] = {}
    used: set[str] = set()
    for option in OPTIONS.values():
        for variable in (option.variable, *(old for _, old in option.old_names)):
            used.add(variable)
            if environ.get(variable) and option.variable not in values:
                reject_end_of_options(environ[variable], f"variable {variable}")
                values[option.variable], set_by[option.variable] = environ[variable], variable
    _split_shared_variable(values, set_by)
    return EnvironmentOptions(values, set_by, tuple(_unknown_variables(environ, used)))


def _split_shared_variable(values: dict[str, str], set_by: dict[str, str]) -> None:
    """A boolean in the variable of two options belongs to the second [OPT9]."""
    first, second = (OPTIONS[name].variable for name in SHARED_VARIABLE)
    try:
        read_boolean(values.get(first, ""))
    except ValueError:
        return
    text = values.pop(first)
    source = set_by.pop(first)
    if second not in values:
        values[second], set_by[second] = text, source


def _unknown_variables(environ: Mapping[str, str], used: set[str]) -> Iterator[str]:
    for variable in sorted(environ):
        if variable.startswith(VARIABLE_PREFIX) and variable not in used | NODE_JS_VARIABLES:
            names = {known.removeprefix(VARIABLE_PREFIX) for known in used}
            hint = did_you_mean(variable.removeprefix(VARIABLE_PREFIX), names, prefix=VARIABLE_PREFIX)
            yield f"unknown variable {variable} is ignored{hint}"
