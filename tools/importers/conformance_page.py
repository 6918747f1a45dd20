"""Writes docs/evidence/conformance.md: every conformance case with its rules, its test and the result of a run.

pytest tests/conformance --junitxml=report.xml
python -m rollup_node.tools.importers.conformance_page report.xml [--out FILE]
"""

import argparse
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parents[2]
_TABLES = _ROOT / "tests" / "vectors" / "conformance"
TABLE = _TABLES / "cases.toml"
TABLES = (TABLE, _TABLES / "differs.toml", _TABLES / "faults.toml")
PAGE = _ROOT / "docs" / "evidence" / "conformance.md"
RULES = _ROOT / "docs" / "rules"
MISSING = "no test"
_RESULTS = ("failed", "skipped", "passed")
_DEPTH = len(("tests", "conformance", "test_stage"))
_MEASURED = " (M)"

_RULE = re.compile(r'<a id="([^"]+)"></a>\*\*([A-Z]+\d+(?:\.\d+|[a-z])?)\*\*')

_HEAD = """# Conformance

What derivation does with L1 data, case by case, and the [rules](../rules/README.md) that decide it. (M) marks outcomes
that were measured on the readers that op-node uses. The sections follow the stages of the pipeline. `differs` lists the
points where specs, op-node and kona differ, with the side taken; `fault` lists the faults that users of other nodes
reported.

Run a single case with `pytest tests/conformance -k CASE`. The page is generated from a test run by
`python -m rollup_node.tools.importers.conformance_page`; do not edit.
"""


class Case(NamedTuple):
    """A row of the table.

    `rules` are ids of docs/rules in their order, each `A-B` for a whole range; `measured` when the outcome was
    measured on op-node's readers."""

    id: str
    stage: str
    rules: tuple[str, ...]
    measured: bool
    expectation: str


class CaseResult(NamedTuple):
    """How the test of a case ended, and the file it is in."""

    file: str
    result: str


def load_cases(*paths: Path) -> dict[str, Case]:
    """Return the cases of all tables, or of those given, by case id."""
    stages = [item for path in paths or TABLES for item in tomllib.loads(path.read_text()).items()]
    return {key: _case(key, stage, *row) for stage, rows in stages for key, row in rows.items()}


def load_report(path: Path) -> dict[str, CaseResult]:
    """Return the results of a run by case, from pytest's JUnit report.

    That of a case which several tests cover is the worst of theirs."""
    report: dict[str, CaseResult] = {}
    for test in ElementTree.parse(path).iter("testcase"):
        names = [*test.get("classname", "").split("."), test.get("name", "")]
        file, case = "/".join(names[:_DEPTH]) + ".py", next(iter(names[_DEPTH:]), "")
        failures = {child.tag for child in test} & {"failure", "error", "skipped"}
        result = "skipped" if failures == {"skipped"} else "failed" if failures else "passed"
        known = report[case].result if case in report else result
        report[case] = CaseResult(file, min(known, result, key=_RESULTS.index))
    return report


@cache
def rule_links() -> Mapping[str, str]:
    """Return the place of each rule, from the folder `docs`."""
    return {
        rule: f"rules/{path.name}#{anchor}"
        for path in sorted(RULES.glob("*.md"))
        for anchor, rule in _RULE.findall(path.read_text())
    }


def page(cases: Mapping[str, Case], report: Mapping[str, CaseResult]) -> str:
    """Return the whole document. Raises KeyError when a case names a rule that docs/rules lacks."""
    return "\n".join([_HEAD, *_summary(cases, report), *_stages(cases, report, rule_links()), ""])


def _case(key: str, stage: str, rules: str, expectation: str) -> Case:
    ids = rules.removesuffix(_MEASURED)
    return Case(key, stage, tuple(ids.split(", ")), ids != rules, expectation)


def _summary(cases: Mapping[str, Case], report: Mapping[str, CaseResult]) -> Iterator[str]:
    results = Counter(report[key].result if key in report else MISSING for key in cases)
    yield f"{len(cases)} cases: " + ", ".join(f"{count} {result}" for result, count in sorted(results.items())) + "."


def _stages(cases: Mapping[str, Case], report: Mapping[str, CaseResult], links: Mapping[str, str]) -> Iterator[str]:
    for stage in dict.fromkeys(case.stage for case in cases.values()):
        own = [case for case in cases.values() if case.stage == stage]
        files = sorted({report[case.id].file for case in own if case.id in report})
        yield f"\n## {stage}\n\n{', '.join(f'`{file}`' for file in files) or MISSING}\n"
        yield "| Case | Rules | Expected outcome | Result |\n|---|---|---|---|"
        for case in own:
            result = report[case.id].result if case.id in report else MISSING
            yield f"| `{case.id}` | {_linked(case, links)} | {case.expectation} | {result} |"


def _linked(case: Case, links: Mapping[str, str]) -> str:
    rules = (" to ".join(f"[{rule}](../{links[rule]})" for rule in item.split("-")) for item in case.rules)
    return ", ".join(rules) + (_MEASURED if case.measured else "")


def main(arguments: list[str] | None = None) -> int:
    """Write the page; 1 if a case has no test that passed."""
    parser = argparse.ArgumentParser(
        description="Writes docs/evidence/conformance.md from a test run.", allow_abbrev=False
    )
    parser.add_argument("report", type=Path, help="pytest's report, as --junitxml writes it")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    try:
        report = load_report(options.report)
    except (OSError, ElementTree.ParseError) as error:
        print(f"error: {options.report} is not a report of pytest: {error}", file=sys.stderr)
        return 1
    cases = load_cases()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(cases, report))
    not_passed = [key for key in cases if key not in report or report[key].result != "passed"]
    if not_passed:
        print(f"{len(not_passed)} cases without a test that passed: {' '.join(not_passed[:10])}", file=sys.stderr)
    return 1 if not_passed else 0


if __name__ == "__main__":
    sys.exit(main())
