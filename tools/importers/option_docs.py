"""Writes docs/options.md from the option table.

python -m rollup_node.tools.importers.option_docs
"""

from collections.abc import Iterator
from pathlib import Path

from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.table import SECTIONS
from rollup_node.node.setup.reload import is_reloaded
from rollup_node.tools.importers.marked_tests import marked

ROOT = Path(__file__).resolve().parents[2]
OPTIONS_FILE = ROOT / "docs" / "options.md"

_HEAD = """# Options

Generated from the option table by `python -m rollup_node.tools.importers.option_docs`; do not edit.

Set an option with its flag, with its environment variable, in a file of its name in the folder of
`CREDENTIALS_DIRECTORY` ([secrets](day-two.md#secrets)), or in the TOML file of `--config`. The first of these that sets
the option wins. A running node takes over some of them ([reload](day-two.md#reload)).

* Flags are `--name=value`, `--name value`, or the same with a single dash. A boolean flag needs no value.
* Durations are `12s`, `6m24s`, `1h0m0s` or `500ms`.
* For a list, separate the items by commas or repeat the flag.
* An empty variable counts as not set.

In the file, write the option's name in quotes (`"l1.beacon" = "http://127.0.0.1:5052"`) or use nested tables. If the
name of one option is the start of another's, its own value in the table is called `value`:

```toml
network = "op-sepolia"

[l1]
value = "http://127.0.0.1:8545"
trustrpc = true
beacon = { value = "http://127.0.0.1:5052", ignore = false }
```

`--help-all` does not show hidden options. The last column links to the test that sees the effect of the option
(`@pytest.mark.option`).
"""


_COLUMNS = "| Option | Type | Default | Variable | Meaning | Test |\n|---|---|---|---|---|---|"


def options_text() -> str:
    """Return the text of the document."""
    return "\n".join([_HEAD, *_sections()])


def _sections() -> Iterator[str]:
    for section in SECTIONS:
        yield f"## {section.title}\n\n{_COLUMNS}"
        yield from (_row(option, _tests(option.name)) for option in section.options)
        yield ""


def _tests(option: str) -> str:
    """Return links to the tests that see the effect of an option; one without effect has none."""
    tests = (test.partition("::") for test in marked("option", option))
    return "<br>".join(f"[{name}](../tests/{file})" for file, _, name in tests) or "-"


def _row(option: AnyOption, test: str) -> str:
    default = f"`{option.default}`" if option.default else "-"
    meaning = " ".join(_meaning(option))
    cells = (f"`{option.name}`", option.value_type.label, default, f"`{option.variable}`", meaning, test)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _meaning(option: AnyOption) -> Iterator[str]:
    yield option.help
    if option.value_type.allowed:
        yield f"One of {', '.join(f'`{word}`' for word in option.value_type.allowed)}."
    for name, variable in option.old_names:
        yield f"Also `--{name}`, `{variable}`."
    if option.hidden:
        yield "Hidden."
    if is_reloaded(option):
        yield "Taken over by a reload."


if __name__ == "__main__":
    OPTIONS_FILE.write_text(options_text())
