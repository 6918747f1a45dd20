"""Options from environment variables: old names, op-node's, shared, unknown [OPT3, OPT5, OPT9, OPT80, OPT84]."""

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from rollup_node.node.options.errors import OptionError, did_you_mean, reject_end_of_options
from rollup_node.node.options.option import VARIABLE_PREFIX
from rollup_node.node.options.table import OPTIONS, SHARED_VARIABLE
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


MAX_LISTED = 50
OP_NODE_PREFIX = "OP_NODE_"
"""op-node's prefix: its variables are read where ours are not set."""

_LINK_NAME = re.compile(
    r"(?:OP_)?NODE(?:_\w+)?_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)", re.ASCII
)
_LINK_URL = re.compile(r"(?:tcp|udp|sctp)://\S+:\d+", re.ASCII)


class OuterOptions(NamedTuple):
    """Options that are neither flags nor in the options file: the text of each by name, and its source for errors.

    `warnings` are lines to log, `errors` describe values that are wrong. `texts` are all that are set, those of
    variables that lose included."""

    values: Mapping[str, str] = MappingProxyType({})
    sources: Mapping[str, str] = MappingProxyType({})
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()


def variable_source(variable: str, name: str) -> str:
    """Return the source of an option that a variable sets."""
    return f"variable {variable} (--{name})"


def read_environment(environ: Mapping[str, str]) -> OuterOptions:
    """Return the variables of options; an empty one counts as not set."""
    links = sorted(name for name, text in environ.items() if _is_service_link(name, text))
    environ = {name: text for name, text in environ.items() if name not in links}
    values: dict[str, str] = {}
    set_by: dict[str, str] = {}
    errors: list[str] = []
    texts: list[tuple[str, str]] = []
    known = {name: (option.variable, *(old for _, old in option.old_names)) for name, option in OPTIONS.items()}
    for own, variables in known.items():
        for variable in (*variables, *map(op_node_variable, variables)):
            if not environ.get(variable):
                continue
            texts.append((own, environ[variable]))
            if own not in values:
                try:
                    reject_end_of_options(environ[variable], f"variable {variable}")
                except OptionError as error:
                    errors.append(str(error))
                    continue
                values[own], set_by[own] = environ[variable], variable
    _split_shared_variable(values, set_by)
    used = {variable for variables in known.values() for variable in variables}
    warnings = [*_op_node_notices(environ, set_by, used), *_unknown_variables(environ, used)]
    if links:
        text = (
            "variables of a Kubernetes service are no options and are ignored (enableServiceLinks: false removes them)"
        )
        warnings.append(f"{text}: {_listed(links)}")
    sources = {name: variable_source(variable, name) for name, variable in set_by.items()}
    return OuterOptions(values, sources, tuple(warnings), tuple(errors), tuple(texts))


def _is_service_link(name: str, text: str) -> bool:
    """Whether Kubernetes or Docker has set a variable for a service whose name begins as our prefixes do [OPT84]."""
    is_port = name.startswith((VARIABLE_PREFIX, OP_NODE_PREFIX)) and name.endswith("_PORT")
    return bool(_LINK_NAME.fullmatch(name) or (is_port and _LINK_URL.fullmatch(text)))


def op_node_variable(variable: str) -> str:
    """Return the name that op-node has for one of our variables."""
    return OP_NODE_PREFIX + variable.removeprefix(VARIABLE_PREFIX)


def _op_node_notices(environ: Mapping[str, str], set_by: Mapping[str, str], used: set[str]) -> Iterator[str]:
    """At most three lines, however many variables there are."""
    present = sorted(name for name, text in environ.items() if name.startswith(OP_NODE_PREFIX) and text)
    read = [name for name in present if name in set_by.values()]
    known = set(map(op_node_variable, used))
    beaten = [name for name in present if name in known and name not in read]
    unknown = [name for name in present if name not in known]
    if read:
        yield f"variables of op-node are read: {_listed(read)}; ours begin with {VARIABLE_PREFIX} and win"
    if beaten:
        yield f"variables of op-node are not read, as ours are set: {_listed(beaten)}"
    if unknown:
        yield f"unknown variables of op-node are ignored: {_listed(unknown)}"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(name[:100] for name in names[:MAX_LISTED]) + more


def _split_shared_variable(values: dict[str, str], set_by: dict[str, str]) -> None:
    """Give a boolean in the variable of two options to the second [OPT9]."""
    first, second = SHARED_VARIABLE
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
