"""The option table is consistent, and every option does something."""

import ast
import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path

from rollup_node.node.options.option import VARIABLE_PREFIX
from rollup_node.node.options.table import OPTIONS, SECTIONS
from rollup_node.stages.l1.receipts import KINDS
from rollup_node.stages.protocol.forks.bundles import SELECTABLE
from rollup_node.stages.protocol.forks.table import FORK_NAMES, OVERRIDABLE
from tests.support.source_trees import tree_of

ROOT = Path(__file__).parents[3]
NO_EFFECT = "No effect."


@functools.cache
def read_names() -> set[str]:
    """Return the strings in all functions of the node but of its option table; in place of `{fork}` every fork."""
    functions = [
        node
        for path in (ROOT / "node").rglob("*.py")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    parts = (part for function in functions for node in function.body for part in ast.walk(node))
    strings = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    assert {"override.", "rollup.", "-bundle"} <= strings
    strings |= {f"override.{fork}" for fork in OVERRIDABLE}
    return strings | {f"rollup.{fork}-bundle" for fork in SELECTABLE}


def test_names_and_variables_are_unique() -> None:
    options = [option for section in SECTIONS for option in section.options]
    names = [name for option in options for name in option.names]
    old_variables = [variable for option in options for _, variable in option.old_names]
    variables = [*(option.variable for option in options), *old_variables]
    assert not [name for name, count in Counter(names).items() if count > 1]
    assert not [variable for variable, count in Counter(variables).items() if count > 1]
    assert all(variable.startswith(VARIABLE_PREFIX) and variable.isupper() for variable in variables)
    assert not any(name.endswith(".value") for name in names), "the options file uses this name"


def test_each_option_sets_a_field_or_is_used_or_says_that_it_has_no_effect() -> None:
    """That its default can be read is test_every_option_alone_at_its_default_passes."""
    assert [option.name for option in OPTIONS.values() if not option.help.endswith(".")] == []
    without = [option for option in OPTIONS.values() if option.help == NO_EFFECT]
    assert all(option.warning is not None and option.field is None for option in without)
    unused = [name for name, option in OPTIONS.items() if option.field is None and name not in read_names()]
    assert set(unused) <= {option.name for option in without}


def test_every_fork_from_canyon_on_can_be_overridden() -> None:
    for fork in (*FORK_NAMES[2:], "pectrablobschedule"):
        assert OPTIONS[f"override.{fork}"].variable == f"NODE_OVERRIDE_{fork.upper()}"
        assert OPTIONS[f"override.{fork}"].default == "0"
    assert "override.regolith" not in OPTIONS


def test_every_kind_of_l1_provider_can_be_chosen() -> None:
    assert set(OPTIONS["l1.rpckind"].value_type.allowed) == set(KINDS)


def test_the_table_loads_no_stage_but_its_configuration() -> None:
    """So that the command line starts fast."""
    code = "import sys, rollup_node.node.options.table; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    loaded = set(done.stdout.split())
    assert not {"aiohttp", "zmq", "ckzg", "btclib_libsecp256k1", "cryptography", "jwt", "asyncio", "logging"} & loaded
    stages = {name for name in loaded if name.startswith("rollup_node.stages.")}
    # What a network is is part of the configuration of l1.
    names = ("protocol", "io", "messages.code", "messages.log_fields", "l1.light_client")
    allowed = tuple(f"rollup_node.stages.{name}" for name in names)
    modules = {name for name in stages if len(name.split(".")) > 3 and not name.startswith(allowed)}
    assert modules and all(name.endswith(".config") for name in modules), modules
