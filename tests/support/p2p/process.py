"""The p2p stage in a process of its own, among processes that the test plays:
`python -m tests.support.p2p.process FOLDER GENESIS_TIME OPTIONS`. OPTIONS is a JSON object with fields of P2pConfig.
Standard output has its address, then the number of each block that the engine process receives; the log goes to
standard error."""

import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path

from rollup_node.stages.io.log import logger as log
from rollup_node.stages.io.log.logger import Level
from rollup_node.stages.messages.p2p import GapEnd, UnsafeBlocksRequest
from rollup_node.stages.protocol.payloads import ExecutionPayload
from tests.support.p2p.nodes import P2pNode, chain_since, timed_chain

NUMBER = 200
"""The number of its network key, which no other peer of a test has."""
SERVED_BLOCKS = 100
DISCOVERY_LINE = "discovery "
UNKNOWN_HEAD = 100
"""Blocks above this one are requested from peers all the time."""
GAP_INTERVAL = 1.0


class ReportingNode(P2pNode):
    """A node that prints each block that it receives."""

    def on_block(self, payload: ExecutionPayload) -> None:
        """Print the block's number."""
        print(f"block {payload.block_number}", flush=True)


async def run(folder: str, genesis_time: int, options: str) -> None:
    """Run the stage until SIGTERM."""
    rollup = chain_since(genesis_time)
    text = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(options).items()}
    node = ReportingNode(NUMBER, rollup, Path(folder), **text)
    node.own_chain = {block.block_number: block for block in timed_chain(rollup, SERVED_BLOCKS)}
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with node.running():
        discv5 = node.stage.discovery.discv5
        if discv5 is not None:
            print(f"{DISCOVERY_LINE}{discv5.endpoint.port}", flush=True)
        print(f"address {node.address}", flush=True)
        while not stopped.is_set():
            node.engine.send(UnsafeBlocksRequest(UNKNOWN_HEAD, GapEnd(UNKNOWN_HEAD + 90, bytes(32), bytes(32))))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GAP_INTERVAL):
                    await stopped.wait()


def main(folder: str, genesis_time: str, options: str) -> int:
    """Run the process with a log at the default level."""
    log.configure("p2p", Level.INFO, log.write_to_stderr)
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(run(folder, int(genesis_time), options))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
