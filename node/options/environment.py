"""The environment as options read it: old variable names, the variable that serves two options, unknown ones."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rollup_node.node.options.errors import refuse_mark
from rollup_node.node.options.kinds import read_boolean
from rollup_node.node.options.nearest import did_you_mean
from rollup_node.node.options.table import BOOLEAN_TWIN, OPTIONS, VARIABLE_PREFIX

OF_NODE_JS = frozenset(
    f"{VARIABLE_PREFIX}{name}"
    for name in (
        *("ENV", "PATH", "OPTIONS", "EXTRA_CA_CERTS", "NO_WARNINGS", "DEBUG", "DISABLE_COLORS", "ICU_DATA"),
        *("PENDING_DEPRECATION", "REDIRECT_WARNINGS", "TLS_REJECT_UNAUTHORIZED", "V8_COVERAGE", "COMPILE_CACHE"),
        *("REPL_HISTORY", "PRESERVE_SYMLINKS", "TEST_CONTEXT", "USE_ENV_PROXY", "USE_SYSTEM_CA", "VERSION"),
    )
)
"""Variables of the program node, which many machines have set; nobody means us by them."""


class Environment(NamedTuple):
    """`values` by the option's own variable; `spelled` gives the variable that was really set; `warnings` are
    lines to log."""

    values: dict[str, str]
    spelled: dict[str, str]
    warnings: tuple[str, ...]


def read_environment(environ: Mapping[str, str]) -> Environment:
    """The variables that belong to options. An empty variable counts as not set."""
    values: dict[str, str] = {}
    spelled: dict[str, str] = {}
    used: set[str] = set()
    for option in OPTIONS.values():
        for variable in (option.variable, *(old for _, old in option.old_names)):
            used.add(variable)
            if environ.get(variable) and option.variable not in values:
                refuse_mark(environ[variable], f"variable {variable}")
                values[option.variable], spelled[option.variable] = environ[variable], variable
    _part_twins(values, spelled)
    return Environment(values, spelled, tuple(_unknown(environ, used)))


def _part_twins(values: dict[str, str], spelled: dict[str, str]) -> None:
    """A boolean in the shared variable belongs to the second option (DESIGN 9)."""
    shared, twin = (OPTIONS[name].variable for name in BOOLEAN_TWIN)
    try:
        read_boolean(values.get(shared, ""))
    except ValueError:
        return
    text = values.pop(shared)
    source = spelled.pop(shared)
    if twin not in values:
        values[twin], spelled[twin] = text, source


def _unknown(environ: Mapping[str, str], used: set[str]) -> Iterator[str]:
    for variable in sorted(environ):
        if variable.startswith(VARIABLE_PREFIX) and variable not in used | OF_NODE_JS:
            names = {known.removeprefix(VARIABLE_PREFIX) for known in used}
            hint = did_you_mean(variable.removeprefix(VARIABLE_PREFIX), names, prefix=VARIABLE_PREFIX)
            yield f"unknown variable {variable} is ignored{hint}"
