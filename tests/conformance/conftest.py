"""Collects the functions marked as conformance cases as tests, whose ids are those of the cases.

Tests that cover another case run again below its id."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.conformance.kit.cases import CoveredCases, cases_of, file_and_test


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item | pytest.Collector] | None:
    only = collector.test.partition("[")[0] if isinstance(collector, CoveringTest) else None
    if isinstance(obj, CoveredCases) and only is None:
        return [CoveredCase.from_parent(collector, name=key, tests=tests) for key, tests in obj.items()]
    cases = {key: test for key, test in cases_of(obj).items() if only in (None, key)}
    if not cases:
        return None if only in (None, name) else []
    return [pytest.Function.from_parent(collector, name=key, callobj=test) for key, test in cases.items()]


class CoveredCase(pytest.Collector):
    """A case; its results are those of the tests that cover it."""

    def __init__(self, *, tests: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._tests = tests

    def collect(self) -> Iterator[pytest.Collector]:
        for name in self._tests:
            path, test = file_and_test(name)
            nodeid = f"{self.nodeid}::{path.stem}"
            yield CoveringTest.from_parent(self, path=path, name=path.stem, nodeid=nodeid, test=test)


class CoveringTest(pytest.Module):
    """A file of tests, of which one is collected. Its fixtures are those of this file and of tests/conftest.py."""

    def __init__(self, *, test: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.test = test

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        items = [item for item in super().collect() if item.name.startswith(self.test)]
        assert items, f"{self.path} has no test {self.test}"
        return items
