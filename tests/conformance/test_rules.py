"""Every derivation rule is tested: a conformance case lists it, a test expects a drop for its reason, or the docstring
of a test cites it."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from rollup_node.tools.dev.folder_graph import parsed
from rollup_node.tools.importers.conformance_page import load_cases, rule_links
from rollup_node.tools.importers.drop_reasons import REASONS

TESTS = Path(__file__).parents[1]
FOLDERS = ("conformance", "stages/derivation", "tools/inspect")
ID = r"[A-Z]{1,3}\d+(?:\.\d+|[a-z])?"
CITATION = re.compile(rf"\[({ID}(?:(?:, | to |-){ID})*)\]")
DEFINITIONS = {
    "AD2": "the Alt-DA resolver gets data items only, so the end and the errors of the L1 source do not reach it",
    "AQ1": "attributes are built on the parent that the batch was checked against, in the same step",
    "BL9": "follows from O5",
    "BQ2": "is E2 and E3",
    "CV9": "withdrawn: nothing is tested in the conversion",
    "E1": "names the state that the rules after it change",
    "H5": "a hazard that N1 and the promotion of the safe head avoid",
    "N4": "a planned change upstream, not followed",
    "W1": "a statement about P rules",
    "W2": "a statement about Q3",
    "W3": "a statement about RD, ST and Z rules",
    "W4": "a statement about BE, SB and SP rules",
    "W5": "a statement about CV rules",
    "W6": "a statement about BE5",
}
"""Rules without behaviour of their own, and why."""
ELSEWHERE = {
    "FK4": "stages/protocol/test_config_json.py",
    "RS7": "stages/engine/starts/test_start_search.py",
}
"""Rules of derivation that another part of the node follows, and the file that tests it."""


@cache
def derivation_rules() -> tuple[str, ...]:
    """Return the rules of docs/rules/derivation*.md but for the open questions."""
    return tuple(rule for rule, place in rule_links().items() if "/derivation" in place and _series(rule)[0] != "U")


def _series(rule: str) -> tuple[str, int]:
    result = re.match(r"([A-Z]+)(\d+)", rule)
    assert result is not None
    return result[1], int(result[2])


def expanded(citation: str) -> Iterator[str]:
    """Yield the ids of a citation such as `V1, V3-V5` or `V3 to V5`."""
    for part in citation.split(", "):
        first, *last = re.split(" to |-", part)
        if not last:
            yield first
            continue
        (prefix, start), (_, end) = _series(first), _series(last[0])
        yield from (rule for rule in rule_links() if (at := _series(rule))[0] == prefix and start <= at[1] <= end)


def _docstrings(tree: ast.Module) -> Iterator[str]:
    """Those of functions: a file's range of rules is no evidence for any one of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (text := ast.get_docstring(node)) is not None:
            yield text


@cache
def rules_under_test() -> frozenset[str]:
    """Return the rules of all cases, expected reasons and cited rules."""
    result = {rule for case in load_cases().values() for rule in expanded(", ".join(case.rules))}
    rules_of_reasons = {reason.name.replace("_", ""): reason.rule for reason in REASONS}
    for path in (path for folder in FOLDERS for path in (TESTS / folder).rglob("test_*.py")):
        tree = parsed(path.read_text())
        result |= {rule for text in _docstrings(tree) for cited in CITATION.findall(text) for rule in expanded(cited)}
        nodes = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
        names = {(node.id if isinstance(node, ast.Name) else node.attr).lower() for node in nodes}
        result |= {rule for name, rule in rules_of_reasons.items() if name in names}
    return frozenset(result)


def test_every_rule_is_tested_or_needs_no_test() -> None:
    tested = rules_under_test()
    with_parts = tested | {re.sub(r"(\.\d+|[a-z])$", "", rule) for rule in tested}
    assert [rule for rule in derivation_rules() if rule not in {*with_parts, *DEFINITIONS, *ELSEWHERE}] == []


def test_the_lists_of_exceptions_are_current() -> None:
    exceptions = DEFINITIONS.keys() | ELSEWHERE.keys()
    assert exceptions <= set(derivation_rules())
    assert exceptions & rules_under_test() == frozenset(), "a rule with a test is no exception"
    assert [path for path in ELSEWHERE.values() if not (TESTS / path).is_file()] == []


def test_the_rules_of_the_cases_exist() -> None:
    named = {rule for case in load_cases().values() for item in case.rules for rule in item.split("-")}
    assert named - rule_links().keys() == set()
