"""op-supernode's options for one of its chains [CMD17]."""

import re
from collections.abc import Iterator, Sequence

from rollup_node.node.options.environment import OP_NODE_PREFIX
from rollup_node.node.options.errors import shown
from rollup_node.tools.convert import op_node
from rollup_node.tools.convert.conversion import Conversion, Given, is_boolean, read_flags, read_variables
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
    "chains": "one file is for one chain",
    "data-dir": "see safedb.path",
    "interop.activation-timestamp": "this node verifies no messages between chains; l2.follow.source may",
    "interop.log-backfill-depth": "this node verifies no messages between chains",
}
_SHARED_NAMES = {name for name in op_node.NAMES if SHARED.fullmatch(name)}
_VN = re.compile(r"vn\.(all|\d+)\.(.+)")


def convert(source: Source, chain: str | None) -> Conversion:
    """Return what a command line and variables of op-supernode set for a chain, by its id; None for the only one.

    What is for a chain overrides what is for all of them, and this what is shared."""
    conversion = Conversion("op-supernode")
    # It makes the options of a chain from the flag alone: with the variable there are only those of all chains.
    ids = named = _chains(list(_flag_texts(source)), conversion)
    if not ids and (word := source.variables.get(f"{PREFIX}CHAINS")):
        ids = _chains([word], conversion)
    given = [
        *read_variables(source, PREFIX, _variables(named), conversion),
        *read_flags(source, _flags(named), conversion),
    ]
    if chain is None and len(ids) == 1:
        chain = ids[0]
    if chain not in ids:
        which = f"no chain {shown(chain)}" if chain else "several chains"
        conversion.errors.append(f"op-supernode runs {which}: choose one of {', '.join(ids)} with --chain")
        return conversion
    data_dir = next((one.text for one in reversed(given) if one.name == "data-dir"), "datadir")
    for scope in ("", "all", chain):
        op_node.add(_of_scope(given, scope, conversion), conversion)
    conversion.default("safedb.path", f"{data_dir.rstrip('/')}/safedb-{chain}", "op-supernode always keeps one")
    conversion.notes.append(f"clients that ask the path /{chain}/ of the supernode ask this node's / instead")
    conversion.require(*op_node.REQUIRED)
    op_node.finish(conversion)
    return conversion


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


def _of_scope(given: list[Given], scope: str, conversion: Conversion) -> list[Given]:
    """Return the options of one scope by op-node's names; what has no effect there is noted."""
    result = []
    for one in given:
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
