"""Methods that other processes answer: calls about peers, and posted blocks."""

from typing import Any

import msgspec

from rollup_node.stages.messages.control import ControlResponse, PostUnsafePayloadRequest
from rollup_node.stages.protocol.engine_json import envelope_to_json
from rollup_node.stages.protocol.hex_encoding import to_hex
from tests.support.p2p_blocks import block
from tests.support.rpc_world import World


def test_calls_about_peers_go_to_the_p2p_process(run: Any) -> None:
    async def scene(world: World) -> None:
        await world.until_ready()
        assert await world.call("opp2p_self") == ["self", ""]
        assert await world.call("opp2p_peers", True) == ["peers", "True"]
        assert await world.call("opp2p_blockPeer", "16Uiu2") == ["blockPeer", "16Uiu2"]
        net = {"IP": "10.1.2.3", "Mask": "/wAAAA=="}
        assert await world.call("opp2p_blockSubnet", net) == ["blockSubnet", "10.0.0.0/8"]
        assert await world.call("opp2p_protectPeer", "16Uiu2") == (-32000, "no connection manager")
        assert (await world.call("opp2p_blockAddr", "10.0.0.300"))[0] == -32602

    run(scene, p2p=True)


def test_without_peers_there_are_no_calls_about_them(run: Any) -> None:
    async def scene(world: World) -> None:
        assert (await world.call("opp2p_self"))[0] == -32601
        assert "opp2p" not in await world.call("rpc_modules")

    run(scene)


def test_a_posted_block_must_have_its_hash(run: Any) -> None:
    payload = block()
    good = envelope_to_json(payload)
    bad = envelope_to_json(msgspec.structs.replace(payload, block_hash=b"\x01" * 32))

    async def scene(world: World) -> None:
        world.answer = lambda message: ControlResponse(message.id, None, None)
        assert await world.call("admin_postUnsafePayload", good) is None
        assert world.asked == [PostUnsafePayloadRequest(1, payload)]
        text = f"payload has bad block hash: 0x{'01' * 32}, actual block hash is: {to_hex(payload.block_hash)}"
        assert await world.call("admin_postUnsafePayload", bad) == (-32000, text)
        assert (await world.call("admin_postUnsafePayload", {}))[0] == -32602

    run(scene)
