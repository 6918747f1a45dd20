"""An options file as TOML: what `--config` reads [OPT1]."""

import json
from collections.abc import Iterator, Mapping, Sequence

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.supernode import OWN, is_shared
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.value_types import BOOL, read_boolean
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.convert.masks import masked_address


def toml_lines(options: NodeOptions, hide: bool) -> Iterator[str]:
    """Yield a line for each option that is given, in the order of the table; those of a chain begin with `vn.CHAIN`.

    A secret becomes a comment that says so. With `hide`, for a terminal, so does what may be a key in an address.
    Raises SetupError for a text that TOML cannot hold."""
    yield from _lines(options.own, OWN, "", hide)
    first = next(iter(options.chains), "")
    for group, values in options.chains.items():
        shared = {name: option for name, option in OPTIONS.items() if not group or is_shared(name)}
        if group == first:
            yield from _lines(values, shared, "", hide)
        if group:
            own = {name: option for name, option in OPTIONS.items() if name not in shared}
            yield from _lines(values, own, f"vn.{group}.", hide)


def _lines(values: Values, options: Mapping[str, AnyOption], prefix: str, hide: bool) -> Iterator[str]:
    # A file cannot name another file.
    for name in [name for name in values.names_given() if name in options and name != "config"]:
        option = options[name]
        texts = values.items(name) if option.value_type.is_list else values.texts(name)
        yield toml_line(f"{prefix}{name}", option, texts, values.source(name), hide)


def toml_line(key: str, option: AnyOption, texts: Sequence[str], source: str, hide: bool) -> str:
    """Return the line of one option under a key, as toml_lines does."""
    if option.secret:
        return f"# {json.dumps(key)} is a secret, and is not copied from {source}"
    if hide:
        texts = tuple(map(masked_address, texts))
    if option.value_type.is_list:
        value = f"[{', '.join(map(_text, texts))}]"
    elif option.value_type is BOOL:
        value = str(read_boolean(texts[-1])).lower()
    elif option.value_type.label == "int":
        value = str(int(texts[-1]))
    else:
        value = _text(texts[-1])
    return f"{json.dumps(key)} = {value}"


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SetupError("a value is not text in UTF-8, and cannot be written into an options file") from None
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
