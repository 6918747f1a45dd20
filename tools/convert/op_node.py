"""op-node's options: the names are ours, some values and defaults are not [CMD17, OPT12, OPT14, OPT80]."""

import re
from collections.abc import Iterable

from rollup_node.node.options.environment import OP_NODE_PREFIX, op_node_variable
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import FLAGS, OPTIONS
from rollup_node.tools.convert.conversion import Conversion, Given, is_boolean, read_flags, read_variables
from rollup_node.tools.convert.sources import Source

OWN = re.compile(
    r"config|workers|tracing\..*|runtime\.dir|status\..*|l1\.checkpoint(\..*)?|rollup\.(bundle-dir|.+-bundle|span-overlap-check)"
    r"|rpc\.(corsdomain|jwt-secret|ready-.*|vhosts|ws-enabled)"
)
"""Options that no op-node has."""
NAMES = {name: is_boolean(name) for name in FLAGS if not OWN.fullmatch(FLAGS[name].name)}
VARIABLES = {
    op_node_variable(variable): option.name
    for option in OPTIONS.values()
    if option.name in NAMES
    for variable in (option.variable, *(old for _, old in option.old_names))
}
REQUIRED = ("l1", "l2", "l2.jwt-secret")
FORMATS = {"logfmtms": "logfmt", "jsonms": "json"}
_BOOLEANS = frozenset(["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"])
_LEVELS = frozenset(["trce", "trace", "dbug", "debug", "info", "warn", "eror", "error", "crit"])
_FORMATS = frozenset(["text", "terminal", "logfmt", "logfmtms", "json", "jsonms"])


def convert(source: Source) -> Conversion:
    """Return what a command line and variables of op-node set."""
    conversion = Conversion("op-node")
    settings = [
        *read_variables(source, OP_NODE_PREFIX, VARIABLES, conversion),
        *read_flags(source, NAMES, conversion),
    ]
    add(settings, conversion)
    conversion.require(*REQUIRED)
    finish(conversion)
    if not conversion.has("p2p.priv.raw"):
        conversion.default("p2p.priv.path", "opnode_p2p_priv.txt", "that is where op-node keeps its network key")
    return conversion


def add(settings: Iterable[Given], conversion: Conversion) -> None:
    """Add what is given under op-node's names, unless op-node refuses it."""
    for one in settings:
        option = FLAGS[one.name]
        if (error := refusal(one, option)) is not None:
            conversion.errors.append(error)
        elif option.warning is not None and option.name != "l2.engine-sync":
            conversion.drop(one, option.warning)
        else:
            conversion.add(option.name, one._replace(text=decimal(one.text, option)))


def refusal(one: Given, option: AnyOption) -> str | None:
    """Return the line by which op-node's own parser refuses a value, None for one that it takes."""
    expected = _refused(option.value_type.label, option.name, one.text)
    value = "" if option.secret else f" {one.text[:80]!r}"
    return expected and f"{one.place}: op-node refuses the value{value} of {one.name}: it takes {expected}"


def decimal(text: str, option: AnyOption) -> str:
    """Return a value whose numbers have no other base than ten."""
    return str(int(text, 0)) if option.value_type.label == "int" else text


def finish(conversion: Conversion) -> None:
    """Replace what this node writes or names otherwise, whatever program it comes from."""
    if conversion.has("l2.engine-sync"):
        setting = conversion.remove("l2.engine-sync")
        if conversion.has("syncmode"):
            conversion.errors.append(f"{setting.place}: {conversion.program} refuses l2.engine-sync beside syncmode")
        if setting.text.lower() in ("1", "t", "true"):
            conversion.add("syncmode", setting._replace(text="execution-layer"))
    if conversion.has("log.format") and conversion.text("log.format") in FORMATS:
        conversion.replace("log.format", FORMATS[conversion.text("log.format")], "times have milliseconds in it")
    for name, file in (("safedb.path", "sqlite"), ("p2p.peerstore.path", "node"), ("p2p.discovery.path", "node")):
        if conversion.has(name) and conversion.text(name) not in ("", "memory"):
            path = conversion.text(name).rstrip("/")
            conversion.replace(name, f"{path}.{file}", f"the database of {conversion.program} cannot be read")


def _refused(label: str, name: str, text: str) -> str | None:
    """Return what op-node's own parser expects of a value that it refuses, None for one that it takes."""
    if label == "bool" and text not in _BOOLEANS:
        return "true or false"
    if label == "int" and not _is_go_integer(text):
        return "a whole number without a leading 0"
    if name == "log.level" and text.lower() not in _LEVELS:
        return ", ".join(sorted(_LEVELS))
    if name == "log.format" and text not in _FORMATS:
        return ", ".join(sorted(_FORMATS))
    return None


def _is_go_integer(text: str) -> bool:
    # As in Python a base may come first; a leading 0 alone is Go's octal.
    try:
        int(text, 0)
    except ValueError:
        return False
    return text.isascii() and len(text) < 40
