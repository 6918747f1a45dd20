"""The bar that shows the progress of a derivation, by tqdm."""

import sys
from importlib.util import find_spec
from typing import Any

from rollup_node.tools.api.errors import InputError


class ProgressBar:
    """Shows the blocks of a range if it is `wanted`; with None in a notebook, if tqdm is installed.

    Raises InputError where it is wanted and tqdm is not installed."""

    def __init__(self, wanted: bool | None, first: int, last: int | None) -> None:
        self._bar: Any = None
        self._number = first
        if wanted is False or (wanted is None and not (in_notebook() and find_spec("tqdm"))):
            return
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            raise needs_extra("tqdm") from None
        self._bar = tqdm(total=None if last is None else last - first, unit="block", delay=0.5)

    def update(self, number: int) -> None:
        """Note that all blocks up to this number are derived."""
        if self._bar is not None:
            self._bar.update(number - self._number)
        self._number = number

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()


def in_notebook() -> bool:
    """Whether the program is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def needs_extra(package: str) -> InputError:
    """Return the error for a package that is not installed."""
    return InputError(f"this needs the package {package}: pip install 'rollup-node[notebook]'", code="NEEDS-EXTRA")
