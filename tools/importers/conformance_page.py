"""Writes docs/conformance.md: every conformance case with its rule, its test and how a run of it ended.

pytest tests/conformance --junitxml=report.xml
python -m rollup_node.tools.importers.conformance_page report.xml [--out FILE]
"""

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

_ROOT = Path(__file__).resolve().parents[2]
_TABLES = _ROOT / "tests" / "vectors" / "conformance"
TABLE = _TABLES / "cases.toml"
TABLES = (TABLE, _TABLES / "differs.toml", _TABLES / "faults.toml")
PAGE = _ROOT / "docs" / "conformance.md"
MISSING = "no test"

_HEAD = """# Conformance

What derivation must make of any L1 data, case by case. Rules are those of the derivation rule book; (M) marks outcomes
that were measured on the readers that op-node uses. Behind the stages stand the points where specs, op-node and kona
differ, with the side taken, and the faults that users of other nodes have met. Generated from a test run by
`python -m rollup_node.tools.importers.conformance_page`; do not edit. One case alone is run by
`pytest tests/conformance -k CASE`.
"""


class ConformanceCase(NamedTuple):
    """A row of the table; `rule` names sections and rules of derivation-rules, with (M) for a measured outcome."""

    id: str
    stage: str
    rule: str
    expectation: str


class CaseResult(NamedTuple):
    """How the test of a case ended, and the file it stands in."""

    file: str
    result: str


def load_cases(*paths: Path) -> dict[str, ConformanceCase]:
    """All tables, or some, by case id."""
    stages = [found for path in paths or TABLES for found in tomllib.loads(path.read_text()).items()]
    return {key: ConformanceCase(key, stage, *row) for stage, rows in stages for key, row in rows.items()}


def load_report(path: Path) -> dict[str, CaseResult]:
    """The outcomes of a run by test name, from pytest's JUnit report."""
    found = {}
    for test in ElementTree.parse(path).iter("testcase"):
        troubles = {child.tag for child in test} & {"failure", "error", "skipped"}
        result = "skipped" if troubles == {"skipped"} else "failed" if troubles else "passed"
        file = test.get("classname", "").replace(".", "/") + ".py"
        found[test.get("name", "")] = CaseResult(file, result)
    return found


def page(cases: Mapping[str, ConformanceCase], report: Mapping[str, CaseResult]) -> str:
    """The whole document."""
    return "\n".join([_HEAD, *_summary(cases, report), *_stages(cases, report), ""])


def _summary(cases: Mapping[str, ConformanceCase], report: Mapping[str, CaseResult]) -> Iterator[str]:
    results = Counter(report[key].result if key in report else MISSING for key in cases)
    yield f"{len(cases)} cases: " + ", ".join(f"{count} {result}" for result, count in sorted(results.items())) + "."


def _stages(cases: Mapping[str, ConformanceCase], report: Mapping[str, CaseResult]) -> Iterator[str]:
    for stage in dict.fromkeys(case.stage for case in cases.values()):
        own = [case for case in cases.values() if case.stage == stage]
        files = sorted({report[case.id].file for case in own if case.id in report})
        yield f"\n## {stage}\n\n{', '.join(f'`{file}`' for file in files) or MISSING}\n"
        yield "| ConformanceCase | Rule | What must come out | CaseResult |\n|---|---|---|---|"
        for case in own:
            result = report[case.id].result if case.id in report else MISSING
            yield f"| `{case.id}` | {case.rule} | {case.expectation} | {result} |"


def main(arguments: list[str] | None = None) -> int:
    """The command: writes the page; 1 if a case has no test that passed."""
    parser = argparse.ArgumentParser(description="Writes docs/conformance.md from a test run.", allow_abbrev=False)
    parser.add_argument("report", type=Path, help="pytest's report, as --junitxml writes it")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args(arguments)
    try:
        report = load_report(options.report)
    except (OSError, ElementTree.ParseError) as error:
        print(f"error: {options.report} is no report of pytest: {error}", file=sys.stderr)
        return 1
    cases = load_cases()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(page(cases, report))
    unsettled = [key for key in cases if key not in report or report[key].result != "passed"]
    if unsettled:
        print(f"{len(unsettled)} cases without a test that passed: {' '.join(unsettled[:10])}", file=sys.stderr)
    return 1 if unsettled else 0


if __name__ == "__main__":
    sys.exit(main())
