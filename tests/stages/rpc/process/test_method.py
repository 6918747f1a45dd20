"""A row of a method table."""

from rollup_node.stages.rpc.process.method import Method
from rollup_node.stages.rpc.process.node_view import NodeView


async def answer(node: NodeView) -> None:
    """A handler."""


def test_the_namespace_is_the_part_before_the_underscore() -> None:
    assert Method("interop_pullEvent", answer).namespace == "interop"
