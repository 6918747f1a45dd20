"""The errors of the API, one family, and how those of the node's commands become one of them."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rollup_node.tools.api.blocks import Block

_OPTION = re.compile(r"--(?!-)([a-z0-9][a-z0-9.-]*[a-z0-9])")
_ARGUMENTS = {"l1.beacon": "beacon", "rollup.config": "Chain.load", "from-l1": "from_l1"}
_ARGUMENTS |= {"from-l2": "from_l2", "to-l2": "to_l2", "l2-blocks": "l2_blocks", "timeout": "timeout"}
_ARGUMENTS |= {"network": "network", "l1": "l1", "l2": "l2"}


class Error(Exception):
    """Base of all errors of the API: one line that says what is wrong and where.

    `code` names the kind; where the node has a code for the condition it is that of docs/codes.md. `rule` is the id of
    the rule in docs/rules that the data break, None where none does."""

    code = "ERROR"

    def __init__(self, text: str, *, code: str | None = None, rule: str | None = None) -> None:
        super().__init__(text)
        self.code = code or self.code
        self.rule = rule


class InputError(Error):
    """An argument is wrong: an unknown network, a file that is none, an option that does not exist."""

    code = "INPUT"


def needs_extra(package: str) -> InputError:
    """Return the error for a package that is not installed."""
    return InputError(f"this needs the package {package}: pip install 'rollup-node[notebook]'", code="NEEDS-EXTRA")


class EndpointError(Error):
    """An endpoint cannot be used: it does not answer, or has another chain."""

    code = "ENDPOINT"


class RangeError(Error):
    """The range is not one that can be derived: it is before genesis, beyond L1's head, or beyond the chain's end."""

    code = "RANGE"


class DataError(Error):
    """Data are missing, damaged or contradict each other: of an archive, a file, a batch or a payload."""

    code = "DATA"


class BlockDiffers(DataError):
    """A derived block differs from the block of the L2 source; `block` has the `differences`."""

    code = "DIFFERS"

    def __init__(self, text: str, block: "Block") -> None:
        super().__init__(text)
        self.block = block


def with_arguments(text: str) -> str:
    """Return a text of the commands with the names that their flags have as arguments."""
    return _OPTION.sub(lambda flag: _ARGUMENTS.get(flag[1], f"options[{flag[1]!r}]"), text)


@contextmanager
def input_errors(kind: type[Error] = InputError) -> Iterator[None]:
    """Raise what the options and the checks of a start refuse as an error of that kind."""
    from rollup_node.node.options.errors import error_lines
    from rollup_node.node.system.exit_codes import SetupError
    from rollup_node.stages.messages.codes import Code

    try:
        yield
    except SetupError as error:
        code = error.code.text if isinstance(error.code, Code) else None
        raise kind(with_arguments("; ".join(error_lines(error))), code=code) from None
