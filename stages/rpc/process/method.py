"""A row of a method table."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from rollup_node.stages.rpc.parameters import Parser


@dataclass(frozen=True)
class Method:
    """One row of the table: `run` is called with the view and the parsed parameters and returns a JSON value.

    It raises JsonRpcError to answer with an error."""

    name: str
    run: Callable[..., Awaitable[Any]]
    parsers: tuple[Parser, ...] = ()

    @property
    def namespace(self) -> str:
        """The part of the name before the underscore."""
        return self.name.split("_")[0]
