"""Measures the gossipsub router with 300 peers.

The CPU of its heartbeats, and the time of a signed block of 100 KB from the bytes of its message to its validation
result and the send queues of the mesh, without transport and IPC."""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence

from rollup_node.stages.p2p.blocks.signing import UnsafeBlockSigners
from rollup_node.stages.p2p.blocks.validation import BlockValidator
from rollup_node.stages.p2p.config import PeerScoring
from rollup_node.stages.p2p.gossipsub.params import MESHSUB_12, GossipParams
from rollup_node.stages.p2p.gossipsub.router import GossipSubRouter, MalformedRpc
from rollup_node.stages.p2p.gossipsub.rpc import ControlMessage, IHave, PubsubMessage, Rpc, Subscription, encode_rpc
from rollup_node.stages.p2p.gossipsub.validation_queue import ValidationResult
from rollup_node.stages.p2p.peering.peer_score import PeerScorer
from rollup_node.tools.bench.measure import Figure, show
from rollup_node.tools.bench.signed_blocks import SIGNER, TOPIC, TOPICS, TRANSACTIONS, chain_config, signed_message

HEARTBEAT_BOUND, BLOCK_BOUND = 10.0, 3.0
GENESIS_TIME = 1_700_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", type=int, default=300)
    parser.add_argument("--heartbeats", type=int, default=120)
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args(sys.argv[1:] if argv is None else argv)
    routers = [GossipBench(args.peers, seed) for seed in range(args.runs)]
    beats = tuple(router.heartbeat_percent(args.heartbeats) for router in routers)
    blocks = tuple(router.block_milliseconds(args.blocks) for router in routers)
    size = len(routers[0].raw_block(0)) / 1000
    return show(
        f"gossip among {args.peers} peers, {len(TOPICS)} topics",
        [
            Figure("heartbeats, CPU", "%", beats, HEARTBEAT_BOUND),
            Figure(f"block of {size:.0f} KB, {TRANSACTIONS} transactions, p50", "ms", blocks, BLOCK_BOUND),
        ],
    )


class GossipBench:
    """A router whose peers are subscribed to all topics, and a block validator."""

    def __init__(self, peers: int, seed: int) -> None:
        self._chance = random.Random(seed)
        self._params = GossipParams()
        self._router = GossipSubRouter(self._params, TOPICS, PeerScorer(PeerScoring.LIGHT, 2), random.Random(seed))
        self._now = 1000.0
        hello = encode_rpc(Rpc([Subscription(topic, True) for topic in TOPICS]))
        self._peers = [number.to_bytes(4, "big") for number in range(peers)]
        for number, peer in enumerate(self._peers):
            self._router.add_peer(peer, MESHSUB_12, number % 2 == 0, [f"10.0.{number // 200}.{number % 200}"])
            self._router.receive_rpc(peer, hello, self._now)
        signers = UnsafeBlockSigners()
        signers.update(SIGNER.address, self._now)
        self._validator = BlockValidator(chain_config(GENESIS_TIME), signers)

    def heartbeat_percent(self, count: int) -> float:
        """CPU of the heartbeats in percent of a core, with messages arriving and peers breaking IHAVE promises."""
        spent = 0.0
        for number in range(count):
            self._accept(encode_rpc(Rpc(messages=[PubsubMessage(TOPIC, b"\x08" + b"\x1c" + bytes([number] * 8))])))
            for peer in self._chance.sample(self._peers, 20):
                ids = [self._chance.randbytes(20) for _ in range(3)]
                self._router.receive_rpc(peer, encode_rpc(Rpc(control=ControlMessage([IHave(TOPIC, ids)]))), self._now)
            self._now += self._params.heartbeat_interval
            start = time.process_time()
            self._router.heartbeat(self._now)
            spent += time.process_time() - start
            self._write_all()
        return 100 * spent / (count * self._params.heartbeat_interval)

    def block_milliseconds(self, count: int) -> float:
        """Median milliseconds from a message's bytes to its validation result, with the frames for the mesh queued."""
        times = []
        for number in range(count):
            raw = self.raw_block(number)
            start = time.perf_counter()
            self._accept(raw)
            times.append(time.perf_counter() - start)
            self._write_all()
        return 1000 * statistics.median(times)

    def raw_block(self, number: int) -> bytes:
        """Return an RPC frame with a signed block that the router has not seen."""
        message = signed_message(number, GENESIS_TIME, self._chance)
        return encode_rpc(Rpc(messages=[PubsubMessage(TOPIC, message)]))

    def _accept(self, raw: bytes) -> None:
        result = self._router.receive_rpc(self._chance.choice(self._peers), raw, self._now)
        assert not isinstance(result, MalformedRpc)
        for incoming in result:
            judgement = self._validator.validate(TOPICS[incoming.topic], incoming.content, GENESIS_TIME, self._now)
            if len(raw) > 1000:
                assert judgement.result is ValidationResult.ACCEPT, str(judgement)
            self._router.report_validation_result(incoming.id, ValidationResult.ACCEPT, self._now)

    def _write_all(self) -> None:
        for peer in self._router.take_ready():
            while self._router.next_frame(peer) is not None:
                pass


if __name__ == "__main__":
    sys.exit(main())
