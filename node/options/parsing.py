"""Options from command line, environment, credentials, options file, and defaults, in this order [OPT1, OPT87]."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn, TextIO

import configargparse

from rollup_node.node.options.credentials import read_credentials
from rollup_node.node.options.environment import OuterOptions, read_environment
from rollup_node.node.options.errors import (
    OptionError,
    WrongOptions,
    did_you_mean,
    error_lines,
    reject_end_of_options,
    shown,
)
from rollup_node.node.options.file import MAX_BYTES, OptionsFile, ScopeOf
from rollup_node.node.options.given_files import open_given_file
from rollup_node.node.options.option import AnyOption, Section
from rollup_node.node.options.table import FLAGS, OPTIONS, SECTIONS
from rollup_node.node.options.value_types import BOOL, read_boolean
from rollup_node.node.options.values import GivenTexts, NodeOptions, Values
from rollup_node.node.system.exit_codes import PROGRAM

MAX_SHOWN = 200
"""Characters of a path."""
OVERRIDE = "override."
INFORMATION = {"h": "--help", "help": "--help", "help-all": "--help-all", "v": "--version", "version": "--version"}
_EPILOG = """An option may be set by its flag, by the variable in brackets, or in the file of
--config; the first of these that sets it wins. Booleans are given bare or as
--name=true and --name=false, durations as 12s, 6m24s or 500ms, lists with
commas between items or by repeating the flag."""


class NormalizedFlags(NamedTuple):
    """Flags as `--name=value`, and a line for each word that is none."""

    words: list[str]
    errors: tuple[str, ...]


class _OptionParser(configargparse.ArgumentParser):  # type: ignore[misc]
    """ConfigArgParse that raises its errors instead of printing them."""

    def error(self, message: str) -> NoReturn:
        # Of a file that cannot be opened, what `_open` says.
        raise OptionError(" ".join(message.split()).rpartition(". Error: ")[2])


class GivenOptions(NamedTuple):
    """What is given for the options of a parser by name, with the fields of NodeOptions."""

    fields: dict[str, GivenTexts]
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    texts: tuple[tuple[AnyOption, tuple[str, ...]], ...]
    has_file: bool


def parse_options(arguments: Sequence[str], environ: Mapping[str, str], others: Iterable[str] = ()) -> NodeOptions:
    """Parse all options of a node of one chain; rules between them are not checked.

    `others` are further flags, of a command that accepts options of the node, to suggest for misspelt ones. Raises
    WrongOptions when an option is invalid."""
    parsed = read_options(arguments, environ, others)
    if parsed.errors:
        raise WrongOptions(parsed.errors)
    return parsed


def read_options(arguments: Sequence[str], environ: Mapping[str, str], others: Iterable[str] = ()) -> NodeOptions:
    """Return the same with what is wrong in `errors`; what remains is in `values`."""
    flags = normalized(arguments, OptionsFile.scope_of, {*INFORMATION, *others})
    raw = read_given(_parser(), OPTIONS, flags, read_environment(environ), read_credentials(environ))
    values = Values(raw.fields)
    return NodeOptions(
        {"": values}, Values({}, {}), raw.warnings, (*raw.errors, *values.errors), raw.texts, raw.has_file
    )


def read_given(
    parser: configargparse.ArgumentParser,
    options: Mapping[str, AnyOption],
    flags: NormalizedFlags,
    environment: OuterOptions,
    credentials: OuterOptions,
    scope_of: ScopeOf = OptionsFile.scope_of,
) -> GivenOptions:
    """Return what flags, environment, credentials and options file give for the options of a parser, by name.

    Of options that the parser does not know, but `scope_of` does, it has what the file gives."""
    errors = [*flags.errors, *environment.errors, *credentials.errors]
    outer, outer_sources = {**credentials.values, **environment.values}, {**credentials.sources, **environment.sources}
    variables = {options[name].variable: text for name, text in outer.items()}
    has_file = True
    OptionsFile.errors.clear()
    OptionsFile.settings.clear()
    try:
        namespace, _ = parser.parse_known_args(flags.words, env_vars=variables)
    except OptionError as error:
        errors += error_lines(error)
        has_file = False
        # The file cannot be read; flags and variables are read without it.
        config = options["config"]
        words = [word for word in flags.words if not word.startswith(f"--{config.name}=")]
        variables.pop(config.variable, None)
        namespace, _ = parser.parse_known_args(words, env_vars=variables)
    fields: dict[str, GivenTexts] = {}
    sources: dict[str, str] = {}
    for origin, settings in parser.get_source_to_settings_dict().items():
        for key, (action, value) in settings.items():
            if origin == "environment_variables":
                fields[action.dest] = GivenTexts((), outer_sources[action.dest], True)
            elif origin.startswith("config_file|"):
                source = f"{key} in file {origin.partition('|')[2]}"
                if action is not None:
                    sources[action.dest] = source
                    continue
                prefix, known = scope_of(key)
                option = known[key.removeprefix(prefix)]
                fields[f"{prefix}{option.name}"] = _given_texts(value, source, option.value_type.split_flags)
    for name, texts in vars(namespace).items():
        if texts is not None and name in options:
            by_variable, split = fields.get(name), options[name].value_type.split_flags
            source = sources.get(name, f"flag --{name}")
            fields[name] = _given_texts(texts, *(by_variable[1:] if by_variable else (source, split)))
    errors += OptionsFile.errors
    warnings = (*environment.warnings, *credentials.warnings)
    flag_texts = ((word[2:].partition("=")[0], word.partition("=")[2]) for word in flags.words)
    named = [*flag_texts, *environment.texts, *credentials.texts, *OptionsFile.settings]
    texts = tuple(_option_and_texts(name, texts, scope_of) for name, texts in named)
    return GivenOptions(fields, warnings, tuple(errors), texts, has_file)


def _option_and_texts(name: str, texts: str | list[str], scope_of: ScopeOf) -> tuple[AnyOption, tuple[str, ...]]:
    prefix, options = scope_of(name)
    return options[name.removeprefix(prefix)], tuple(texts) if isinstance(texts, list) else (texts,)


def _given_texts(texts: str | list[str], source: str, split: bool) -> GivenTexts:
    return GivenTexts(tuple(texts) if isinstance(texts, list) else (texts,), source, split)


def requested_information(arguments: Sequence[str]) -> str | None:
    """`--help`, `--help-all` or `--version` if the arguments contain one of them."""
    flags = (name for name in map(_name_of_flag, arguments) if name is not None)
    return next((INFORMATION[name] for name in flags if name in INFORMATION), None)


def normalized(arguments: Sequence[str], scope_of: ScopeOf, others: Iterable[str] = ()) -> NormalizedFlags:
    """Return the arguments with every flag as `--name=value` [OPT2]. `others` are flags to suggest.

    Single dashes are doubled, bare booleans are true, values in the next argument are attached."""
    words = list(arguments)
    result: list[str] = []
    errors: list[str] = []
    while words:
        try:
            result.append(_next_flag(words, scope_of, others))
        except OptionError as error:
            errors.append(str(error))
    return NormalizedFlags(result, tuple(errors))


def _next_flag(words: list[str], scope_of: ScopeOf, others: Iterable[str]) -> str:
    """Remove one flag with its value, and return both. Raises OptionError when it is wrong."""
    word = words.pop(0)
    flag, equals, text = word.partition("=")
    name = _name_of_flag(flag)
    if name is None:
        raise OptionError(f"unexpected argument {shown(word)}: options start with --")
    prefix, options = scope_of(name)
    own = name.removeprefix(prefix)
    if own not in options:
        if not equals and words and not words[0].startswith("-"):
            words.pop(0)  # its value, most likely
        unknown = f"--{name}" if prefix else flag
        raise OptionError(f"unknown flag {shown(unknown)[1:-1]}{_hint(own, {*options, *others}, prefix)}")
    if not equals:
        text = _next_value(options[own], f"--{name}", words)
    reject_end_of_options(text, f"flag --{name}")
    return f"--{name}={text}"


def _hint(name: str, known: Iterable[str], prefix: str) -> str:
    if not name.startswith(OVERRIDE):
        return did_you_mean(name, known, prefix=f"--{prefix}")
    # Compared without what all have in common, which would make them alike.
    forks = [flag.removeprefix(OVERRIDE) for flag in FLAGS if flag.startswith(OVERRIDE)]
    hint = did_you_mean(name.removeprefix(OVERRIDE), forks, f"--{prefix}{OVERRIDE}")
    return hint or f"; there are {', '.join(forks)}"


def _name_of_flag(word: str) -> str | None:
    """Return the name after one or two dashes, or None when there is none."""
    name = word.removeprefix("-").removeprefix("-")
    return name if name and name != word and not name.startswith("-") else None


def _next_value(option: AnyOption, flag: str, words: list[str]) -> str:
    """Remove and return the value of a flag without `=` from the arguments that follow it."""
    if option.value_type is BOOL:
        return words.pop(0) if words and _is_boolean(words[0]) else "true"
    if not words or _is_flag(words[0]):
        raise OptionError(f"flag {flag} needs a value: expected {option.value_type.expected}")
    return words.pop(0)


def _is_flag(word: str) -> bool:
    name = word.lstrip("-").partition("=")[0]
    return word.startswith("-") and (name in FLAGS or name.startswith("vn."))


def _is_boolean(word: str) -> bool:
    try:
        read_boolean(word)
    except ValueError:
        return False
    return True


@functools.cache
def _parser() -> configargparse.ArgumentParser:
    """Return the parser of all options, which takes 2 ms to make."""
    return option_parser(SECTIONS)


def option_parser(
    sections: Iterable[Section],
    information: bool = True,
    usage: str = f"{PROGRAM} [options]",
    epilog: str = _EPILOG,
    file: type[OptionsFile] = OptionsFile,
) -> configargparse.ArgumentParser:
    """Return the parser of these options, with --help and --version where `information`; hidden ones lack help.

    `file` is what reads the options file."""
    parser = _OptionParser(
        prog=PROGRAM,
        usage=usage,
        description="Follows and produces an OP Stack chain.",
        epilog=epilog,
        formatter_class=configargparse.RawDescriptionHelpFormatter,
        config_file_parser_class=file,
        config_file_open_func=_open,
        allow_abbrev=False,
        add_help=False,
        add_env_var_help=False,
        add_config_file_help=False,
    )
    for section in sections:
        group = parser.add_argument_group(section.title)
        for option in section.options:
            allowed = f" One of {', '.join(option.value_type.allowed)}." if option.value_type.allowed else ""
            default = "" if option.default in (None, "") else f" Default: {option.default}."
            group.add_argument(
                *(f"--{name}" for name in reversed(option.names)),
                dest=option.name,
                env_var=option.variable,
                is_config_file=option.name == "config" or None,
                action="append" if option.value_type.is_list else "store",
                metavar=option.metavar,
                help=configargparse.SUPPRESS
                if option.hidden
                else f"{option.help}{allowed}{default} [{option.variable}]".replace("%", "%%"),
            )
    if information:
        group = parser.add_argument_group("Information")
        group.add_argument("-h", "--help", action="store_true", help="Print the main options and the commands.")
        group.add_argument("--help-all", action="store_true", help="Print this text.")
        group.add_argument("-v", "--version", action="store_true", help="Print the version.")
    return parser


def _open(path: str) -> TextIO:
    try:
        return open_given_file(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise OptionError(f"--config {path[:MAX_SHOWN]}: {reason}") from None
