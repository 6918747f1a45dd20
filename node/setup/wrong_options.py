"""Everything that is wrong in the options of a node, for one report at its start."""

import re
from collections.abc import Iterator

import msgspec

from rollup_node.node.options.errors import OptionError, WrongOptions, error_lines
from rollup_node.node.options.parsing import ParsedOptions
from rollup_node.node.options.rules import RULES, broken
from rollup_node.node.options.values import Values
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.p2p import check_p2p_config
from rollup_node.node.setup.plan import p2p_config

_MISSING = re.compile(r" is required|but got none")


def reject_wrong_options(parsed: ParsedOptions) -> None:
    """Raise WrongOptions with a line for each thing that is wrong in the options, their rules, and the chain.

    What is missing may be in an options file that cannot be used: then only values that cannot be parsed are
    reported. It may also be what a name that is unknown means. No file is written."""
    lines = parsed.errors
    if parsed.has_file:
        has_unknown = any(line.startswith("unknown") for line in lines)
        rules = _broken_rules(parsed.values)
        lines = (*lines, *(line for line in rules if not (has_unknown and _MISSING.search(line))))
        try:
            lines = (*lines, *_wrong_chain(parsed.values))
        except msgspec.ValidationError:
            # A configuration lacks what a broken rule says.
            if not lines:
                raise
    if lines:
        raise WrongOptions(lines)


def _broken_rules(values: Values) -> Iterator[str]:
    for rule in RULES:
        yield from broken(rule, values)


def _wrong_chain(values: Values) -> Iterator[str]:
    """Check the chain; an invalid value raises its error again, which WrongOptions drops."""
    try:
        if not values["network"] and not values["rollup.config"]:
            return  # a rule says so
        chain = choose_chain(values, _ignore, _ignore)
        if not values["p2p.disable"]:
            check_p2p_config(p2p_config(values, chain))
    except OptionError as error:
        yield from error_lines(error)


def _ignore(text: str) -> None:
    """Ignore lines that the node logs when it starts."""
