"""The base installation: the distributions that `pip install rollup-node` brings, and nothing of the extras."""

import tomllib
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def base_dependencies(root: Path) -> dict[str, list[str]]:
    """Return what the project in a checkout needs without extras, and all that this needs, each with its own needs.

    What a distribution needs is what the one that is installed here says."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    result: dict[str, list[str]] = {canonicalize_name(project["name"]): _names(project["dependencies"])}
    left: list[str] = [name for needs in result.values() for name in needs]
    while left:
        name = left.pop()
        if name not in result:
            result[name] = _names(distribution(name).requires or ())
            left += result[name]
    return result


def pinned_versions(root: Path) -> dict[str, str]:
    """Return the versions of constraints.txt by name."""
    lines = (line for line in (root / "constraints.txt").read_text().splitlines() if not line.startswith("#"))
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in map(Requirement, lines)}


def _names(requirements: Iterable[str]) -> list[str]:
    needed = map(Requirement, requirements)
    here = [item for item in needed if item.marker is None or item.marker.evaluate({"extra": ""})]
    return sorted({canonicalize_name(item.name) for item in here})
