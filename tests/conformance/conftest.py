"""Collects the functions marked as conformance cases as tests, whose ids are those of the cases."""

import pytest

from tests.conformance.kit.cases import cases_of


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    cases = cases_of(obj)
    if not cases:
        return None
    return [pytest.Function.from_parent(collector, name=key, callobj=test) for key, test in cases.items()]
