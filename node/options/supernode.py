"""Options of `rollup-node supernode`: its own, and the node's for all chains and for each [SNO1 to SNO6]."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from rollup_node.node.options import value_types
from rollup_node.node.options.credentials import read_credentials
from rollup_node.node.options.environment import OuterOptions, variable_source
from rollup_node.node.options.errors import OptionError, did_you_mean, reject_end_of_options
from rollup_node.node.options.file import MAX_BYTES, OptionsFile, read_settings
from rollup_node.node.options.given_files import open_given_file
from rollup_node.node.options.option import VARIABLE_PREFIX, AnyOption, Section
from rollup_node.node.options.parsing import GivenOptions, normalized, option_parser, read_given
from rollup_node.node.options.table import FLAGS
from rollup_node.node.options.values import GivenTexts, NodeOptions, Values
from rollup_node.node.system.exit_codes import SetupError

PREFIX = "OP_SUPERNODE_"
ALL = "all"
_SCOPED = re.compile(r"--?vn\.([^.=]*)\.")
_CHAIN_ID = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_OPTION = re.compile(r"((?<![\w-])--|^flag |\bor (?=[a-z.]+ is required))([a-z][a-z0-9.-]*[a-z0-9])")
_SCOPED_VARIABLE = re.compile(rf"{PREFIX}VN_(ALL|[0-9]+)_(\w+)", re.ASCII)


def _own(name: str, value_type: value_types.ValueType[Any], text: str, **more: Any) -> AnyOption:
    variable = PREFIX + name.translate(str.maketrans(".-", "__")).upper()
    return AnyOption(name, value_type, text, variable=variable, **more)


SUPERNODE = Section(
    "Supernode",
    _own(
        "chains",
        value_types.list_of("list of int", "decimal chain ids with commas between", value_types.integer(1).read),
        "Ids of the L2 chains to run.",
    ),
    _own("data-dir", value_types.PATH, "Folder of everything that is kept, by chain.", default="./datadir"),
    _own(
        "dependency-set",
        value_types.PATH,
        "JSON file with the chains that execute messages of each other, instead of the registry's.",
    ),
    _own("disable-p2p", value_types.BOOL, "Run no chain's peer-to-peer network."),
    _own(
        "interop.activation-timestamp",
        value_types.COUNT,
        "Verify messages from this time on, in Unix seconds, instead of Lagoon's; 0: Lagoon's.",
        default="0",
    ),
    _own(
        "interop.log-backfill-depth",
        value_types.DURATION,
        "How far before the safe heads logs are read when nothing is verified yet.",
        default="168h",
    ),
    _own("rpc.port", value_types.PORT, "Port of the RPC server of all chains; 0: any free port.", default="8545"),
)
OWN = {option.name: option for option in SUPERNODE.options}
_SHARED_PREFIXES = ("l1.", "log.", "rpc.", "metrics.", "pprof.", "status.", "tracing.")
_SHARED_NAMES = {"l1", "config", "workers", "runtime.dir"}
_OWNED = {"interop.dependency-set", "safedb.path"}
REFUSED = {"l2.follow.source": "it is derived here", "interop.rpc.addr": "its messages are verified here"}
"""Options that no chain of a supernode may have."""
PORTS = ("p2p.listen.tcp", "p2p.listen.udp")


INFORMATION = {"h", "help"}
_EPILOG = """Shared options of the node are given as they are: --l1, --l1.*, --log.*, --rpc.*,
--metrics.*, --pprof.*, --status.*, --tracing.*, --workers, --runtime.dir, --config.
All others are those of chains: --vn.all.NAME for all of them, --vn.CHAIN.NAME for
one, which wins (rollup-node --help-all). Variables: OP_SUPERNODE_*,
OP_SUPERNODE_VN_ALL_*, OP_SUPERNODE_VN_<CHAIN>_*. In the file of --config: tables
[vn.all] and [vn.CHAIN].
"""


def is_shared(name: str) -> bool:
    """Whether an option of the node is that of the supernode, and not of a chain [SNO2]."""
    return name in _SHARED_NAMES or name.startswith(_SHARED_PREFIXES)


_TOP = {name: option for name, option in FLAGS.items() if is_shared(name)} | OWN


def _scope_of(name: str) -> tuple[str, Mapping[str, AnyOption]]:
    match = _SCOPED.match(f"--{name}")
    return (f"vn.{match[1]}.", FLAGS) if match else ("", _TOP)


class _File(OptionsFile):
    scope_of = staticmethod(_scope_of)


def read_supernode_options(arguments: Sequence[str], environ: Mapping[str, str]) -> NodeOptions:
    """Parse the options of a supernode; what is wrong with them is in `errors`, a line for each.

    An option of all chains or of one is one more option, with a name and a variable of its own."""
    flags, environment = normalized(arguments, _scope_of), _environment(environ)
    credentials = read_credentials(environ, _scope_of)
    names = (*(word[2:].partition("=")[0] for word in flags.words), *dict(environment.texts), *credentials.values)
    options = {option.name: option for option in _TOP.values()}
    for prefix in filter(None, dict.fromkeys(_scope_of(name)[0] for name in names)):
        options |= {f"{prefix}{option.name}": _scoped(option, prefix) for option in FLAGS.values()}
    flags = flags._replace(errors=tuple(map(_with_hint, flags.errors)))
    parser = option_parser([Section("", *options.values())], information=False, file=_File)
    return _by_chain(read_given(parser, options, flags, environment, credentials, _scope_of))


def _scoped(option: AnyOption, prefix: str) -> AnyOption:
    name, old_names = f"{prefix}{option.name}", tuple((f"{prefix}{old}", "") for old, _ in option.old_names)
    return replace(option, name=name, variable=name, old_names=old_names)


def are_for_supernode(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether these options are those of a supernode: `chains` is there, or in the file that they name."""
    own = dict(word[2:].split("=", 1) for word in normalized(arguments, _scope_of).words)
    if "chains" in own or environ.get(f"{PREFIX}CHAINS"):
        return True
    path = own.get("config") or environ.get(f"{PREFIX}CONFIG", "")
    # A pipe can be read once.
    with suppress(OSError, ValueError, OptionError):
        if os.path.isfile(path):
            with open_given_file(path, MAX_BYTES) as stream:
                return "chains" in dict(read_settings(stream, path))
    return False


def _by_chain(raw: GivenOptions) -> NodeOptions:
    scopes: dict[str, dict[str, GivenTexts]] = {}
    errors, warnings = list(raw.errors), list(raw.warnings)
    for name, item in raw.fields.items():
        prefix, options = _scope_of(name)
        scope, option = prefix[3:-1], options[name.removeprefix(prefix)]
        if prefix and scope != ALL and not _CHAIN_ID.fullmatch(scope):
            source = f"flag --{prefix[:-1]}" if item.source.startswith("flag ") else item.source
            errors.append(f"{source}: expected vn.{ALL} or vn.CHAIN with a decimal chain id")
        elif scope and (is_shared(option.name) or option.name in _OWNED):
            warnings.append(f"{item.source} is ignored: it belongs to the supernode, not to a chain")
        elif scope and option.name in REFUSED:
            errors.append(f"{item.source} is not for a chain of a supernode: {REFUSED[option.name]}")
        elif scope == ALL and option.name in PORTS and item.texts[-1] != "0":
            hint = f"give --vn.CHAIN.{option.name} to one"
            errors.append(f"{item.source}: two chains cannot listen on one port; {hint}")
        else:
            scopes.setdefault(scope, {})[option.name] = item
    shared = scopes.pop("", {})
    of_all = {name: item for name, item in shared.items() if name not in OWN} | scopes.pop(ALL, {})
    own = Values({name: item for name, item in shared.items() if name in OWN}, OWN)
    errors += own.errors
    ids = [] if "chains" not in shared or any("--chains" in error for error in own.errors) else list(own["chains"])
    if not ids and not errors:
        errors.append("flag chains is required: give the ids of the chains with commas between")
    errors += [
        f"{own.source('chains')} has chain {chain} twice" for chain in sorted({x for x in ids if ids.count(x) > 1})
    ]
    for scope, fields in scopes.items():
        if scope not in map(str, ids):
            source = next(iter(fields.values())).source
            errors.append(f"{source}: chain {scope} is not one of --chains={','.join(map(str, ids))}")
    chains = {str(chain): Values(of_all | scopes.get(str(chain), {})) for chain in dict.fromkeys(ids)}
    errors += [error for values in chains.values() for error in values.errors]
    unique = tuple(dict.fromkeys(warnings)), tuple(dict.fromkeys(errors))
    return NodeOptions(chains, own, *unique, raw.texts, raw.has_file)


@contextmanager
def errors_of_chain(group: str) -> Iterator[None]:
    """Name the chain of a supernode in the error of what is done for it; `group` is empty in a node of one chain."""
    try:
        yield
    except SetupError as error:
        if not group:
            raise
        raise SetupError(f"chain {group}: {scoped(str(error), group)}", error.code) from None


def scoped(text: str, scope: str) -> str:
    """Return a text of the node with the options of chains by their names for this chain, or for all of them [SNO1]."""

    def name_here(match: re.Match[str]) -> str:
        before, name = match.groups()
        if name == "interop.dependency-set":
            return "--dependency-set"
        return f"{before}vn.{scope}.{name}" if name in FLAGS and not is_shared(name) else match[0]

    return _OPTION.sub(name_here, text)


def _with_hint(error: str) -> str:
    """Return the error of a node's option that is given without a scope with the form that it has here."""
    match = re.match(r"unknown flag --([\w.-]+)", error)
    if match is None or match[1] not in FLAGS:
        return error
    return f"flag --{match[1]} is an option of a chain: give --vn.{ALL}.{match[1]} or --vn.CHAIN.{match[1]}"


def _environment(environ: Mapping[str, str]) -> OuterOptions:
    """Return the variables that are set, as op-supernode names them; an empty one counts as not set."""
    top, chain = _by_variable(_TOP), _by_variable(FLAGS)
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    warnings: list[str] = []
    errors: list[str] = []
    texts: list[tuple[str, str]] = []
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or not text:
            continue
        scoped = _SCOPED_VARIABLE.fullmatch(variable)
        suffix = scoped[2] if scoped else variable.removeprefix(PREFIX)
        option = (chain if scoped else top).get(suffix)
        if option is None:
            known = [PREFIX + known for known in top] if not scoped else [f"{PREFIX}VN_{scoped[1]}_{x}" for x in chain]
            warnings.append(f"unknown variable {variable} is ignored{did_you_mean(variable, known)}")
            continue
        name = f"vn.{scoped[1].lower()}.{option.name}" if scoped else option.name
        texts.append((name, text))
        try:
            reject_end_of_options(text, f"variable {variable}")
        except OptionError as error:
            errors.append(str(error))
            continue
        values[name], sources[name] = text, variable_source(variable, name)
    return OuterOptions(values, sources, tuple(warnings), tuple(errors), tuple(texts))


def _by_variable(options: Mapping[str, AnyOption]) -> dict[str, AnyOption]:
    """Return options by their variables, without prefix; a supernode's own win."""
    result = {}
    for option in options.values():
        old = (variable for _, variable in option.old_names)
        for variable in (option.variable, *old):
            result[variable.removeprefix(PREFIX).removeprefix(VARIABLE_PREFIX)] = option
    return result


def help_text() -> str:
    """Return the text of `rollup-node supernode --help`."""
    parser = option_parser((SUPERNODE,), usage="rollup-node supernode [options]", epilog=_EPILOG)
    text: str = parser.format_help()
    return text
