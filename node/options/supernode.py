"""Options of `rollup-node supernode`: its own, and the node's for all chains and for each [SNO1 to SNO6]."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rollup_node.node.options import value_types
from rollup_node.node.options.credentials import read_credentials
from rollup_node.node.options.errors import OptionError, did_you_mean, reject_end_of_options
from rollup_node.node.options.file import MAX_BYTES, read_settings, setting_texts
from rollup_node.node.options.given_files import open_given_file
from rollup_node.node.options.option import VARIABLE_PREFIX, AnyOption, Section
from rollup_node.node.options.parsing import FLAGS, next_flag, option_parser
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


class _Inputs:
    """What is given by scope: the empty one is the supernode, `all` all chains, a number one chain."""

    def __init__(self) -> None:
        self.fields: dict[str, dict[str, GivenTexts]] = {}
        self.errors: list[str] = []
        self.warnings: list[str] = []
        self.texts: list[tuple[AnyOption, tuple[str, ...]]] = []

    def add(self, scope: str, name: str, texts: GivenTexts) -> None:
        """Take an option by the name or an old name of it; a later one replaces an earlier."""
        option = (_TOP if not scope else FLAGS)[name]
        self.texts.append((option, texts.texts))
        if scope and (is_shared(option.name) or option.name in _OWNED):
            self.warnings.append(f"{texts.source} is ignored: it belongs to the supernode, not to a chain")
        elif scope and option.name in REFUSED:
            self.errors.append(f"{texts.source} is not for a chain of a supernode: {REFUSED[option.name]}")
        elif scope == ALL and option.name in PORTS and texts.texts[-1] != "0":
            hint = f"give --vn.CHAIN.{option.name} to one"
            self.errors.append(f"{texts.source}: two chains cannot listen on one port; {hint}")
        else:
            self.fields.setdefault(scope, {})[option.name] = texts


def read_supernode_options(arguments: Sequence[str], environ: Mapping[str, str]) -> NodeOptions:
    """Parse the options of a supernode; what is wrong with them is in `errors`, a line for each."""
    inputs, flags = _Inputs(), _Inputs()
    for scope, name, texts in _flags(arguments, flags.errors):
        before = flags.fields.get(scope, {}).get((_TOP if not scope else FLAGS)[name].name)
        both = texts if before is None else texts._replace(texts=(*before.texts, *texts.texts))
        flags.add(scope, name, both)
    variables = list(_variables(environ, inputs))
    file = flags.fields.get("", {}).get("config") or next(
        (texts for _, name, texts in variables if name == "config"), None
    )
    if file is not None and file.texts[-1]:
        _add_file(inputs, file.texts[-1])
    for scope, name, texts in (*_credentials(environ, inputs), *variables):
        inputs.add(scope, name, texts)
    for scope, fields in flags.fields.items():
        for name, texts in fields.items():
            inputs.fields.setdefault(scope, {})[name] = texts
    inputs.errors += flags.errors
    inputs.warnings += flags.warnings
    inputs.texts += flags.texts
    return _by_chain(inputs)


def are_for_supernode(arguments: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether these options are those of a supernode: `chains` is there, or in the file that they name."""
    own = {name: texts.texts[-1] for scope, name, texts in _flags(arguments, []) if not scope}
    path = own.get("config") or environ.get(f"{PREFIX}CONFIG", "")
    if "chains" in own or environ.get(f"{PREFIX}CHAINS"):
        return True
    # A pipe can be read once.
    if not os.path.isfile(path):
        return False
    file = _Inputs()
    _add_file(file, path)
    return "chains" in file.fields.get("", {})


def _by_chain(inputs: _Inputs) -> NodeOptions:
    shared = inputs.fields.get("", {})
    own = Values({name: texts for name, texts in shared.items() if name in OWN}, OWN)
    errors = [*inputs.errors, *own.errors]
    ids = [] if "chains" not in shared or any("--chains" in error for error in own.errors) else list(own["chains"])
    if not ids and not errors:
        errors.append("flag chains is required: give the ids of the chains with commas between")
    errors += [
        f"{own.source('chains')} has chain {chain} twice" for chain in sorted({x for x in ids if ids.count(x) > 1})
    ]
    for scope, fields in inputs.fields.items():
        if scope not in ("", ALL, *map(str, ids)):
            source = next(iter(fields.values())).source
            errors.append(f"{source}: chain {scope} is not one of --chains={','.join(map(str, ids))}")
    common = {name: texts for name, texts in shared.items() if name not in OWN} | inputs.fields.get(ALL, {})
    chains = {str(chain): Values(common | inputs.fields.get(str(chain), {})) for chain in dict.fromkeys(ids)}
    errors += [error for values in chains.values() for error in values.errors]
    warnings = tuple(dict.fromkeys(inputs.warnings))
    return NodeOptions(chains, own, warnings, tuple(dict.fromkeys(errors)), tuple(inputs.texts))


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


def _flags(arguments: Sequence[str], errors: list[str]) -> Iterator[tuple[str, str, GivenTexts]]:
    words = list(arguments)
    while words:
        scoped = _SCOPED.match(words[0])
        scope = scoped[1] if scoped else ""
        prefix = f"vn.{scope}." if scoped else ""
        if scoped:
            words[0] = f"--{words[0][scoped.end() :]}"
        options = FLAGS if scoped else _TOP
        try:
            name, text = next_flag(words, options, options, prefix)
            _check_scope(prefix, f"flag --{prefix[:-1]}")
        except OptionError as error:
            errors.append(_with_hint(str(error), scope))
            continue
        option = options[name]
        yield scope, name, GivenTexts((text,), f"flag --{prefix}{name}", option.value_type.split_flags)


def _check_scope(prefix: str, source: str) -> None:
    if prefix not in ("", f"vn.{ALL}.") and not _CHAIN_ID.fullmatch(prefix[3:-1]):
        raise OptionError(f"{source}: expected vn.{ALL} or vn.CHAIN with a decimal chain id")


def _with_hint(error: str, scope: str) -> str:
    """Return the error of a node's option that is given without a scope with the form that it has here."""
    match = re.match(r"unknown flag --([\w.-]+)", error)
    if scope or match is None or match[1] not in FLAGS:
        return error
    return f"flag --{match[1]} is an option of a chain: give --vn.{ALL}.{match[1]} or --vn.CHAIN.{match[1]}"


def _variables(environ: Mapping[str, str], inputs: _Inputs) -> Iterator[tuple[str, str, GivenTexts]]:
    """Yield the variables that are set, as op-supernode names them; an empty one counts as not set."""
    top, chain = _by_variable(_TOP), _by_variable(FLAGS)
    for variable in sorted(environ):
        text = environ[variable]
        if not variable.startswith(PREFIX) or not text:
            continue
        scoped = _SCOPED_VARIABLE.fullmatch(variable)
        scope = scoped[1].lower() if scoped else ""
        suffix = scoped[2] if scoped else variable.removeprefix(PREFIX)
        name = (chain if scoped else top).get(suffix)
        if name is None:
            known = [PREFIX + known for known in top] if not scoped else [f"{PREFIX}VN_{scoped[1]}_{x}" for x in chain]
            inputs.warnings.append(f"unknown variable {variable} is ignored{did_you_mean(variable, known)}")
            continue
        try:
            reject_end_of_options(text, f"variable {variable}")
        except OptionError as error:
            inputs.errors.append(str(error))
            continue
        shown = f"vn.{scope}.{name}" if scope else name
        yield scope, name, GivenTexts((text,), f"variable {variable} (--{shown})", True)


def _credentials(environ: Mapping[str, str], inputs: _Inputs) -> Iterator[tuple[str, str, GivenTexts]]:
    """Yield the options in files of the folder of credentials, which are named as in the options file [OPT87]."""
    files = read_credentials(environ, _scope_of)
    inputs.errors += files.errors
    inputs.warnings += files.warnings
    for file, text in files.values.items():
        prefix, _ = _scope_of(file)
        scope = prefix[3:-1]
        try:
            _check_scope(prefix, f"credential {file}")
        except OptionError as error:
            inputs.errors.append(str(error))
            continue
        yield scope, file.removeprefix(prefix), GivenTexts((text,), f"credential {file} in {files.folder}", True)


def _scope_of(name: str) -> tuple[str, Mapping[str, AnyOption]]:
    match = _SCOPED.match(f"--{name}")
    return (f"vn.{match[1]}.", FLAGS) if match else ("", _TOP)


def _by_variable(options: Mapping[str, AnyOption]) -> dict[str, str]:
    """Return the names of options by their variables, without prefix; a supernode's own win."""
    result = {}
    for option in options.values():
        old = (variable for _, variable in option.old_names)
        for variable in (option.variable, *old):
            result[variable.removeprefix(PREFIX).removeprefix(VARIABLE_PREFIX)] = option.name
    return result


def _add_file(inputs: _Inputs, path: str) -> None:
    try:
        with open_given_file(path, MAX_BYTES) as stream:
            settings = read_settings(stream, path)
    except OptionError as error:
        inputs.errors.append(str(error))
        return
    except (OSError, ValueError) as error:
        inputs.errors.append(f"--config {path[:200]}: {(getattr(error, 'strerror', None) or str(error)).lower()}")
        return
    for key, value in settings:
        prefix, options = _scope_of(key)
        scope, name = prefix[3:-1], key.removeprefix(prefix)
        try:
            _check_scope(prefix, f"{key} in file {path}")
            texts = setting_texts(key, name, value, path, options)
        except OptionError as error:
            inputs.errors.append(_with_hint(str(error), scope))
            continue
        items = tuple(texts) if isinstance(texts, list) else (texts,)
        split = options[name].value_type.split_flags
        inputs.add(scope, name, GivenTexts(items, f"{key} in file {path}", split))


def help_text() -> str:
    """Return the text of `rollup-node supernode --help`."""
    parser = option_parser((SUPERNODE,), usage="rollup-node supernode [options]", epilog=_EPILOG)
    text: str = parser.format_help()
    return text
