"""The base installation: the distributions that `pip install rollup-node` brings, and nothing of the extras."""

from importlib.metadata import distribution, packages_distributions
from pathlib import Path

from rollup_node.tools.dev.dependencies import base_dependencies

ROOT = Path(__file__).parents[3]

_BLOCKER = """
import os
import sys
from importlib.machinery import PathFinder


class BaseInstallation(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {names} else super().find_spec(name, path, target)


if "rollup_node" in sys.orig_argv and "devnet" not in sys.orig_argv:
    sys.meta_path[:] = [BaseInstallation if finder is PathFinder else finder for finder in sys.meta_path]
    open(os.path.join(os.path.dirname(__file__), str(os.getpid())), "x").close()
"""


def base_distributions() -> dict[str, int]:
    """Return the distributions that the project needs without extras, and all that they need, each with the bytes of
    its files without bytecode."""
    result: dict[str, int] = {}
    for name in base_dependencies(ROOT).keys() - {"rollup-node"}:
        files = [Path(str(file.locate())) for file in distribution(name).files or () if file.suffix != ".pyc"]
        result[name] = sum(file.stat().st_size for file in files if file.exists())
    return result


def block_extras(folder: Path) -> None:
    """Write a `sitecustomize` that has the node's processes, in whose PYTHONPATH the folder is, run as if nothing but
    the base installation were there. Each node leaves a file there, named by the id of the process that starts it."""
    allowed = {_normal(name) for name in (*base_distributions(), "rollup-node")}
    packages = packages_distributions().items()
    names = {top for top, owners in packages if not any(_normal(owner) in allowed for owner in owners)}
    assert {"web3", "rich", "pytest"} <= names
    (folder / "sitecustomize.py").write_text(_BLOCKER.format(names=sorted(names)))


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
