"""What a command says of a URL of --rpc where there is no node, another program, or an older node."""

from collections.abc import Mapping
from typing import Any

import pytest

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.inspect.node_client import GIVE_PORT, call_node
from tests.support.servers.loopback import free_port, own_address
from tests.support.servers.threads import json_rpc_server

NOT_FOUND = {"error": {"code": -32601, "message": "the method x does not exist/is not available"}}


async def refusal(url: str) -> str:
    with pytest.raises(SetupError) as caught:
        await call_node(url, "x", "it is older")
    return str(caught.value).replace(url.removeprefix("http://"), "URL")


async def test_an_answer() -> None:
    with json_rpc_server("x", {"result": [1]}) as url:
        assert await call_node(url, "x", "") == [1]


@pytest.mark.parametrize(
    ("answer", "is_node", "text"),
    [
        (
            NOT_FOUND,
            False,
            "--rpc: URL is an L1, an engine or another program, not a rollup-node of this version",
        ),
        (NOT_FOUND, True, "--rpc: URL does not answer x: it is older"),
        ({"error": {"code": -32000, "message": "busy"}}, True, "--rpc: URL does not answer x: error -32000: busy"),
    ],
)
async def test_a_refusal(answer: Mapping[str, Any], is_node: bool, text: str) -> None:
    with json_rpc_server("x", answer, is_node) as url:
        assert (await refusal(url)).startswith(text)


async def test_nobody() -> None:
    text = await refusal(f"http://{own_address()}:{free_port()}")
    assert text.startswith("--rpc: no node answers at URL: cannot connect (") and text.endswith(GIVE_PORT)
