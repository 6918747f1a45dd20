"""Everything that is wrong in the options of a node, for one report at its start."""

from collections.abc import Iterator

import msgspec

from rollup_node.node.options.errors import MissingOption, OptionError, WrongOptions, error_lines
from rollup_node.node.options.parsing import ParsedOptions
from rollup_node.node.options.rules import REQUIRED, RULES, broken
from rollup_node.node.setup.chain import choose_chain
from rollup_node.node.setup.p2p import check_p2p_config
from rollup_node.node.setup.plan import p2p_config


def reject_wrong_options(parsed: ParsedOptions) -> None:
    """Raise WrongOptions if anything is wrong."""
    lines = wrong_lines(parsed)
    if lines:
        raise WrongOptions(lines)


def wrong_lines(parsed: ParsedOptions) -> tuple[str, ...]:
    """Return a line for each thing that is wrong in the options, their rules, and the chain.

    What is missing may be in an options file that cannot be used: then only values that cannot be parsed are
    reported. Nor is that said to be missing which a misspelt name may mean. No file is written."""
    lines = parsed.errors
    if parsed.has_file:
        lines = (*lines, *_broken_rules(parsed))
        try:
            lines = (*lines, *_wrong_chain(parsed))
        except msgspec.ValidationError:
            # A configuration lacks what a broken rule says.
            if not lines:
                raise
    return lines


def _broken_rules(parsed: ParsedOptions) -> Iterator[str]:
    for rule in RULES:
        if not (parsed.lacks_names and rule in REQUIRED):
            yield from broken(rule, parsed.values)


def _wrong_chain(parsed: ParsedOptions) -> Iterator[str]:
    """Check the chain; an invalid value raises its error again, which WrongOptions drops."""
    values = parsed.values
    try:
        if not values["network"] and not values["rollup.config"]:
            return  # a rule says so
        chain = choose_chain(values)
        if not values["p2p.disable"]:
            check_p2p_config(p2p_config(values, chain))
    except OptionError as error:
        if not (parsed.lacks_names and isinstance(error, MissingOption)):
            yield from error_lines(error)
