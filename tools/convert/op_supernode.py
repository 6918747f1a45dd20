"""op-supernode's options, for a supernode or for a node of one of its chains [CMD17]."""

import re
from collections.abc import Iterator, Sequence

from rollup_node.node.options.environment import OP_NODE_PREFIX
from rollup_node.node.options.errors import WrongOptions, shown
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.supernode import OWN, read_supernode_options
from rollup_node.node.options.table import FLAGS
from rollup_node.tools.convert import op_node
from rollup_node.tools.convert.conversion import Conversion, Given, is_boolean, read_flags, read_variables, toml_line
from rollup_node.tools.convert.sources import Source, Word

PREFIX = "OP_SUPERNODE_"
SHARED = re.compile(
    r"l1|l1\.beacon(-fallbacks|-archiver)?|l1\.http-poll-interval|(log|metrics|pprof)\..*|rpc\.(addr|port|enable-admin)"
)
"""Options of the whole supernode that an op-node has by the same name."""
IGNORED = re.compile(r"l1\.http-poll-interval|interop\.dependency-set|safedb\.path|(log|metrics|pprof|rpc)\..*")
"""Options that op-supernode accepts for a chain and does not use."""
RENAMED = {"dependency-set": "interop.dependency-set", "disable-p2p": "p2p.disable"}
ALONE = {
    "chains": "the file is for one chain",
    "data-dir": "see safedb.path",
    "interop.activation-timestamp": "a node of one chain verifies no messages; l2.follow.source may",
    "interop.log-backfill-depth": "a node of one chain verifies no messages",
}
_SHARED_NAMES = {name for name in op_node.NAMES if SHARED.fullmatch(name)}
_VN = re.compile(r"vn\.(all|\d+)\.(.+)")


def convert(source: Source, chain: str) -> Conversion:
    """Return what a command line and variables of op-supernode set for a chain, by its id.

    What is for a chain overrides what is for all of them, and this what is shared."""
    conversion = Conversion("op-supernode")
    ids, settings = _read(source, conversion)
    if chain not in ids:
        conversion.errors.append(f"op-supernode runs no chain {shown(chain)}; --chain is one of {', '.join(ids)}")
        return conversion
    data_dir = next((one.text for one in reversed(settings) if one.name == "data-dir"), "datadir")
    for scope in ("", "all", chain):
        op_node.add(_of_scope(settings, scope, conversion), conversion)
    conversion.default("safedb.path", f"{data_dir.rstrip('/')}/safedb-{chain}", "op-supernode always keeps one")
    conversion.notes.append(f"clients that ask the path /{chain}/ of the supernode ask this node's / instead")
    conversion.require(*op_node.REQUIRED)
    op_node.finish(conversion)
    return conversion


def convert_all(source: Source, hide: bool) -> tuple[Conversion, list[str]]:
    """Return the lines of a file for `rollup-node supernode`, which has op-supernode's options [SNO2].

    Raises WrongOptions with a line for each thing that either of both would refuse."""
    conversion = Conversion("op-supernode")
    ids, settings = _read(source, conversion)
    by_flag = {one.name for one in settings if one.is_flag}
    kept: dict[str, list[Given]] = {}
    for one in (one for one in settings if one.is_flag or one.name not in by_flag):
        option = _option(one.name)
        if (error := op_node.refusal(one, option)) is not None:
            conversion.errors.append(error)
            continue
        before = kept.get(one.name, []) if option.value_type.is_list else []
        kept[one.name] = [*before, one._replace(text=op_node.decimal(one.text, option))]
    words = [f"--{one.name}={one.text}" for all_given in kept.values() for one in all_given]
    options = read_supernode_options(words, {})
    conversion.errors += [_placed(error, settings) for error in options.errors]
    for chain, values in options.chains.items():
        missing = [name for name in op_node.REQUIRED if not values.given(name)]
        conversion.errors += [f"op-supernode requires {name} for chain {chain}" for name in missing]
    if not ids and not conversion.errors:
        conversion.errors.append("op-supernode requires chains: give the file that sets it too")
    if conversion.errors:
        raise WrongOptions(conversion.errors)
    conversion.notes += [_placed(warning, settings) for warning in options.warnings]
    conversion.notes.append("files of op-supernode are not read: give data-dir a folder that is empty")
    return conversion, [_line(name, all_given, hide) for name, all_given in kept.items()]


def _line(name: str, settings: list[Given], hide: bool) -> str:
    option = _option(name)
    split = option.value_type.split_flags or not settings[-1].is_flag
    parts = (part for one in settings for part in (one.text.split(",") if split else (one.text,)))
    texts = [part.strip() for part in parts if part.strip()] if option.value_type.is_list else [settings[-1].text]
    return toml_line(name, option, texts, settings[-1].place, hide)


def _option(name: str) -> AnyOption:
    match = _VN.fullmatch(name)
    return OWN[name] if not match and name in OWN else FLAGS[match[2] if match else name]


def _placed(line: str, settings: Sequence[Given]) -> str:
    """Return a line about a flag with the place where it is given."""
    place = next((one.place for one in settings if re.search(rf"--{re.escape(one.name)}(?![\w.-])", line)), None)
    return f"{place}: {line}" if place else line


def _read(source: Source, conversion: Conversion) -> tuple[list[str], list[Given]]:
    """Return the ids of the chains, and the options that op-supernode reads, variables first."""
    # It makes the options of a chain from the flag alone: with the variable there are only those of all chains.
    ids = named = _chains(list(_flag_texts(source)), conversion)
    if not ids and (word := source.variables.get(f"{PREFIX}CHAINS")):
        ids = _chains([word], conversion)
    variables = read_variables(source, PREFIX, _variables(named), conversion)
    return ids, [*variables, *read_flags(source, _flags(named), conversion)]


def _chains(words: Sequence[Word], conversion: Conversion) -> list[str]:
    """Return the ids in the texts of --chains."""
    ids = [(part.strip(), word.place) for word in words for part in word.text.split(",")]
    names = [name for name, _ in ids]
    for name, place in ids:
        if not name.isdigit():
            conversion.errors.append(f"{place}: op-supernode refuses the chain id {name[:80]!r}")
        elif names.count(name) > 1:
            conversion.errors.append(f"{place}: op-supernode refuses chain {name[:80]} twice")
    return list(dict.fromkeys(names))


def _flag_texts(source: Source) -> Iterator[Word]:
    """Yield the values of the flag `chains`."""
    for index, word in enumerate(source.words):
        name, equals, text = word.text.lstrip("-").partition("=")
        if name == "chains" and word.text.startswith("-"):
            yield from [word._replace(text=text)] if equals else source.words[index + 1 : index + 2]


def _flags(ids: list[str]) -> dict[str, bool]:
    shared = {name: is_boolean(name) for name in _SHARED_NAMES}
    own = {"disable-p2p": True, **dict.fromkeys((*ALONE, "dependency-set"), False)}
    chains = {f"vn.{scope}.{name}": flag for scope in ("all", *ids) for name, flag in op_node.NAMES.items()}
    return {**shared, **own, **chains}


def _variables(ids: list[str]) -> dict[str, str]:
    own = {PREFIX + name.upper().translate(str.maketrans(".-", "__")): name for name in (*ALONE, *RENAMED)}
    shared = {
        PREFIX + variable.removeprefix(OP_NODE_PREFIX): name
        for variable, name in op_node.VARIABLES.items()
        if name in _SHARED_NAMES
    }
    chains = {
        f"{PREFIX}VN_{scope.upper()}_{variable.removeprefix(OP_NODE_PREFIX)}": f"vn.{scope}.{name}"
        for scope in ("all", *ids)
        for variable, name in op_node.VARIABLES.items()
    }
    return {**own, **shared, **chains}


def _of_scope(settings: list[Given], scope: str, conversion: Conversion) -> list[Given]:
    """Return the options of one scope by op-node's names; what has no effect there is noted."""
    result = []
    for one in settings:
        match = _VN.fullmatch(one.name)
        name = match[2] if match else RENAMED.get(one.name, one.name)
        if (match[1] if match else "") != scope:
            continue
        if match and IGNORED.fullmatch(name):
            conversion.drop(one, "op-supernode ignores it for a chain")
        elif not match and name in ALONE:
            conversion.drop(one, ALONE[name])
        else:
            result.append(one._replace(name=name))
    return result
