"""js-libp2p nodes with gossipsub and the sync protocol, beside whole p2p stages of our own."""

import asyncio
import contextlib
import time
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

from rollup_node.stages.p2p.addresses.peer_id import parse_peer_id
from tests.support.foreign.js_peers import JsPeer, by, js_peer
from tests.support.p2p.nodes import P2pNode

PROGRAM = "gossip_peer.mjs"


class JsGossipPeer:
    """One such node; `peer_text` is its peer id as text."""

    def __init__(self, js: JsPeer) -> None:
        self.js = js
        self.peer_text: str = js.ready["peer"]
        self.peer = parse_peer_id(self.peer_text)
        self.address: str = js.ready["addresses"][0]

    async def join(self, *topics: str) -> None:
        """Join topics, whose messages are all accepted."""
        for topic in topics:
            await self.js.call("validate", topic=topic, result="accept")
            await self.js.call("join", topic=topic)

    async def dial(self, node: P2pNode) -> None:
        """Connect to one of our nodes."""
        await self.js.call("dial", address=node.address)

    async def publish(self, topic: str, message: bytes) -> set[str]:
        """Publish raw message data; returns the peers it was sent to at once."""
        return set(await self.js.call("publish", topic=topic, data=b64encode(message).decode()))

    async def received(self, message_id: bytes) -> dict[str, Any]:
        """Return the event of an accepted message, with its bytes as `data`."""
        event = await self.js.event("message", by(id=message_id.hex()))
        return {**event, "data": b64decode(event["data"])}

    def rpcs(self, part: str, peer: str | None = None) -> list[Any]:
        """Return a part of all RPCs that peers, or one of them, have sent so far, in order."""
        events = [event for event in self.js.events if event["event"] == "rpc" and peer in (None, event["peer"])]
        return [item for event in events for item in event[part]]

    async def wait_for_rpc(self, part: str, matches: Callable[[Any], object]) -> Any:
        """Wait for an entry of a part of an RPC for which `matches` holds."""
        event = await self.js.event("rpc", lambda event: any(map(matches, event[part])))
        return next(item for item in event[part] if matches(item))

    def copies(self, message_id: bytes, peer: str | None = None) -> int:
        """How often peers, or one of them, have sent a message."""
        return sum(rpc["id"] == message_id.hex() for rpc in self.rpcs("messages", peer))

    async def state(self, topic: str) -> dict[str, Any]:
        """Its mesh and subscribers in a topic, and the scores and protocols of all its peers."""
        return dict(await self.js.call("state", topic=topic))

    async def wait_for_state(self, topic: str, condition: Callable[[dict[str, Any]], object]) -> None:
        """Wait until `condition` holds for its state."""
        async with asyncio.timeout(15.0):
            while not condition(await self.state(topic)):
                await asyncio.sleep(0.05)

    async def wait_for_mesh_with(self, node: P2pNode, topic: str) -> None:
        """Wait until each is in the mesh of the other."""
        await node.until(lambda: self.peer in node.stage.gossip.router.meshes.members[topic])
        await self.wait_for_state(topic, lambda state: node.peer in state["mesh"])

    async def set_response(self, number: int, data: bytes) -> None:
        """Set the response to a request for a block."""
        await self.js.call("answer", number=number, data=b64encode(data).decode())

    async def request(self, node: P2pNode, protocol: str, request: bytes) -> bytes:
        """Return our response to a request."""
        data = b64encode(request).decode()
        return b64decode(await self.js.call("request", peer=node.peer, protocol=protocol, data=data, seconds=30.0))

    def requested_numbers(self) -> list[int]:
        """Return the block numbers requested from it, in order."""
        return [event["number"] for event in self.js.events if event["event"] == "request"]


@contextlib.asynccontextmanager
async def gossip_peer(number: int, **options: Any) -> AsyncIterator[JsGossipPeer]:
    """Start one; `gossip` are settings of gossipsub, `sync` the ids under which it serves the sync protocol."""
    async with js_peer(secret=bytes([100 + number] * 32).hex(), **options) as js:
        yield JsGossipPeer(js)


def present_topic(node: P2pNode) -> str:
    """Return the topic of blocks with the present timestamp."""
    return node.stage.gossip.topic(time.time())
