"""A start of the node in this process as far as the supervisor: it ends with the check of the endpoints."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

from rollup_node.node.setup import start
from rollup_node.node.supervisor.settings import NodeSettings
from rollup_node.node.system.process_table import ProcessSpec


@contextmanager
def without_supervisor() -> Iterator[None]:
    """Has `rollup_node.node.cli.main` check the endpoints where it would run a node; a start without an error fails."""
    with mock.patch.object(start, "run_node", _check):
        yield


def _check(_: Sequence[ProcessSpec], settings: NodeSettings) -> int:
    assert settings.precheck is not None
    asyncio.run(settings.precheck())
    raise AssertionError("the node would start")
