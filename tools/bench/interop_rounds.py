"""Measures the CPU time of a round of the interop verifier, from the receipts of its heads to the file.

    python -m rollup_node.tools.bench.interop_rounds [--chains 5] [--messages 200] [--logs 100] [--rounds 300]

Each chain has a block a second with so many logs; the messages are over all chains, and name logs of rounds before and
of the same second."""

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from rollup_node.stages.interop.block_content import block_content, verified_header
from rollup_node.stages.interop.config import InteropConfig
from rollup_node.stages.interop.process.store import InteropStore
from rollup_node.stages.interop.rounds import (
    Advance,
    AskL1,
    AskStored,
    Observed,
    StoreState,
    next_step,
    next_time,
)
from rollup_node.stages.protocol.headers import HeaderJson, header_from_json, header_hash
from rollup_node.stages.protocol.hex_encoding import to_hex
from rollup_node.stages.protocol.interop_messages import EXECUTING_MESSAGE
from rollup_node.stages.protocol.keccak import keccak256
from rollup_node.stages.protocol.mpt import ordered_root
from rollup_node.stages.protocol.receipts import receipt_from_json
from rollup_node.stages.protocol.types import CROSS_L2_INBOX, ZERO_HASH, BlockId, Hash
from rollup_node.tools.bench import synthetic_chain
from rollup_node.tools.bench.measure import Figure, show

ROUND_MS = 50.0
ORIGIN = b"\x0a" * 20
PAYLOAD = 200
"""Bytes of data of an initiating message."""
L1 = BlockId(1, ZERO_HASH)
_header = msgspec.json.Decoder(HeaderJson)
_receipts = msgspec.json.Decoder(list[msgspec.Raw])
_BLOOM = to_hex(b"\x01" * 256)
_WORDS = ("sha3Uncles", "stateRoot", "transactionsRoot", "mixHash", "withdrawalsRoot", "parentBeaconBlockRoot")
_NUMBERS = ("difficulty", "gasLimit", "gasUsed", "baseFeePerGas", "blobGasUsed", "excessBlobGas")
_FIELDS = {
    **dict.fromkeys(_WORDS, to_hex(ZERO_HASH)),
    **dict.fromkeys(_NUMBERS, "0x0"),
    **{"miner": to_hex(ORIGIN), "extraData": "0x", "nonce": "0x0000000000000000"},
}
"""The members of a header that are the same in all blocks."""


class Rounds:
    """Chains with a block a second, and the verifier over them."""

    def __init__(self, options: argparse.Namespace, path: str) -> None:
        rollup = msgspec.structs.replace(synthetic_chain.config(), block_time=1)
        self._config = InteropConfig(dict.fromkeys(range(1, options.chains + 1), rollup), rollup.genesis.l2_time)
        self._logs, self._messages = options.logs, options.messages // options.chains
        self._store = InteropStore(path, self._config)
        self._chance = random.Random(1)
        self._state = self._store.state()

    def close(self) -> None:
        self._store.close()

    def seconds(self) -> float:
        """CPU seconds of the next round."""
        timestamp = next_time(self._config, self._state)
        answers = {chain_id: self._answers(chain_id, timestamp) for chain_id in self._config.chains}
        started = time.process_time()
        self._state = self._round(answers)
        return time.process_time() - started

    def _round(self, answers: dict[int, tuple[bytes, bytes]]) -> StoreState:
        blocks = {}
        for chain_id, (header, receipts) in answers.items():
            answer = _header.decode(header)
            verified = verified_header(answer, int(answer.number, 16))
            block = block_content(verified, _receipts.decode(receipts))
            blocks[chain_id] = msgspec.structs.replace(block, l1=L1)
        observed = Observed(blocks)
        while True:
            match next_step(self._config, self._state, observed):
                case AskL1():
                    observed = msgspec.structs.replace(observed, l1={L1.number: L1.hash})
                case AskStored(places=places):
                    observed = msgspec.structs.replace(observed, stored=self._store.stored(places))
                case Advance() as change:
                    return self._store.write(change)
                case other:
                    raise AssertionError(f"the round ends with {other}")

    def _answers(self, chain_id: int, timestamp: int) -> tuple[bytes, bytes]:
        """Return header and receipts of a block: one with its initiating logs, and one for each executing message."""
        payloads = [to_hex(_payload(chain_id, timestamp, index)) for index in range(self._logs)]
        plain = [{"address": to_hex(ORIGIN), "topics": [], "data": payload} for payload in payloads]
        first = next_time(self._config, StoreState({})) + 1
        count = self._messages if timestamp > first else 0
        receipts: list[Sequence[object]] = [plain, *([self._executing(timestamp, first)] for _ in range(count))]
        tip = self._state.tips.get(chain_id)
        number = self._config.chains[chain_id].block_number_at(timestamp)
        return block_answers(number, timestamp, ZERO_HASH if tip is None else tip.hash, receipts)[1:]

    def _executing(self, timestamp: int, first: int) -> dict[str, object]:
        source, index = self._chance.choice(list(self._config.chains)), self._chance.randrange(self._logs)
        at = self._chance.randint(max(first, timestamp - 600), timestamp)
        number = self._config.chains[source].block_number_at(at)
        words = b"".join(word.to_bytes(32, "big") for word in (number, index, at, source))
        topics = [to_hex(EXECUTING_MESSAGE), to_hex(keccak256(_payload(source, at, index)))]
        return {"address": to_hex(CROSS_L2_INBOX), "topics": topics, "data": to_hex(bytes(12) + ORIGIN + words)}


def block_answers(
    number: int, timestamp: int, parent: Hash, receipts: Sequence[Sequence[object]]
) -> tuple[Hash, bytes, bytes]:
    """Return the hash of a block with these logs by receipt, and its header and receipts as an engine shows them."""
    common = {"logsBloom": _BLOOM, "cumulativeGasUsed": "0x5208", "type": "0x2", "status": "0x1"}
    shown = [{**common, "logs": logs} for logs in receipts]
    root = ordered_root([receipt_from_json(receipt) for receipt in shown])
    header: dict[str, object] = {
        **_FIELDS,
        "number": hex(number),
        "timestamp": hex(timestamp),
        "parentHash": to_hex(parent),
        "receiptsRoot": to_hex(root),
        "logsBloom": _BLOOM,
    }
    block_hash = header_hash(header_from_json(header))
    answer = msgspec.json.encode({**header, "hash": to_hex(block_hash)})
    return block_hash, answer, msgspec.json.encode(shown)


def _payload(chain_id: int, timestamp: int, index: int) -> bytes:
    return b"%d %d %d" % (chain_id, timestamp, index) + bytes(PAYLOAD)


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures; return 1 if one misses its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("chains", 5), ("messages", 200), ("logs", 100), ("rounds", 300)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        rounds = Rounds(options, str(Path(folder) / "interop"))
        for _ in range(options.rounds // 2):
            rounds.seconds()
        runs = tuple(1000 * rounds.seconds() for _ in range(options.rounds))
        rounds.close()
    what = f"a round of {options.chains} chains, {options.messages} messages, CPU"
    return show("rounds of the interop verifier", [Figure(what, "ms", runs, ROUND_MS)])


if __name__ == "__main__":
    sys.exit(main())
