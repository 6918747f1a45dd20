"""One stage in a process of its own, with a compute worker and the clients' ends of its channels:
`python -m tests.support.processes.stage_program ROLE CONFIG CONSTANTS`, where CONFIG is the msgpack file of its config
and CONSTANTS a JSON object of numbers in modules of the product, by dotted name, that this process replaces.

Every line on stdin is the JSON list of requests to repeat from now on. What arrives is printed, one JSON object a line;
the log is on stderr."""

import asyncio
import importlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import orjson

from rollup_node.ipc.bus.bus import ProcessId
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.blobs.process import stage as blobs
from rollup_node.stages.engine.config import EngineConfig
from rollup_node.stages.engine.process import stage as engine
from rollup_node.stages.io.log import logger as log
from rollup_node.stages.l1.config import L1Config
from rollup_node.stages.l1.process import stage as l1
from rollup_node.stages.messages.base import Endpoints, Health, QueueLength
from rollup_node.stages.messages.blobs import (
    BlobsRequest,
    BlobsResponse,
    BlobsUnavailable,
    InputRequest,
    InputResponse,
    InputTooLarge,
    InputUnavailable,
)
from rollup_node.stages.messages.engine import PipelineStart, StartRequest
from rollup_node.stages.messages.l1 import (
    L1BlockResponse,
    L1BlocksRequest,
    L1Heads,
    L1RefsRequest,
    L1RefsResponse,
)
from rollup_node.stages.protocol.commitments import decode_commitment
from rollup_node.stages.protocol.types import BlobRef, L1BlockRef
from tests.support.chains.chain_fixture import chain_with
from tests.support.processes.stage_runner import running_stage

REPEAT_SECONDS = 0.3


def main() -> None:
    """Run until the end of stdin or SIGTERM."""
    role, config = sys.argv[1], Path(sys.argv[2]).read_bytes()
    for name, value in orjson.loads(sys.argv[3]).items():
        module, _, constant = name.rpartition(".")
        result = importlib.import_module(module)
        assert hasattr(result, constant), name
        setattr(result, constant, value)
    log.configure(role, log.Level.INFO, log.write_to_stderr)
    asyncio.run(_STAGES[role](config))


async def _run_l1(data: bytes) -> None:
    config = msgspec.msgpack.decode(data, type=L1Config)
    async with running_stage("l1", lambda bus, meter: l1.build(config, bus, meter)) as buses:
        blocks = buses["derivation"].connect("l1.blocks", _print_message)
        origins = buses["engine"].connect("l1.origins", _print_message)
        buses["rpc"].subscribe("status.l1", _print_message)

        def send(request: list[Any]) -> None:
            kind, number, count = request
            if kind == "blocks":
                blocks.send(L1BlocksRequest(number, count))
            else:
                origins.send(L1RefsRequest(number, count))

        await _serve_requests(send)


async def _run_blobs(data: bytes) -> None:
    config = msgspec.msgpack.decode(data, type=BlobsConfig)
    async with running_stage("blobs", lambda bus, meter: blobs.build(config, bus, meter)) as buses:
        contents = buses["derivation"].connect("blobs.contents", _print_message)
        buses["rpc"].subscribe("status.blobs", _print_message)

        def send(request: list[Any]) -> None:
            if request[0] == "input":
                contents.send(InputRequest(decode_commitment(bytes.fromhex(request[1])), request[2]))
                return
            number, time, hashes, urgent = request
            block = L1BlockRef(number.to_bytes(32, "big"), number, bytes(32), time)
            refs = tuple(BlobRef(index, bytes.fromhex(item)) for index, item in enumerate(hashes))
            contents.send(BlobsRequest(block, refs, urgent))

        await _serve_requests(send)


async def _run_engine(data: bytes) -> None:
    """The l1 process that it asks serves the L1 of a chain fixture."""
    config, chain = msgspec.msgpack.decode(data, type=EngineConfig), chain_with()
    async with running_stage("engine", lambda bus, meter: engine.build(config, bus, meter)) as buses:
        blocks = buses["derivation"].connect("engine.blocks", _print_message)

        def serve_refs(peer: ProcessId, request: L1BlocksRequest | L1RefsRequest) -> None:
            if isinstance(request, L1RefsRequest):
                first = max(0, request.last - request.count + 1)
                refs = tuple(chain.l1_ref(number) for number in range(first, request.last + 1))
                origins.send(peer, L1RefsResponse(request.last, refs, None))
                return
            for number in range(request.first, request.first + request.count):
                origins.send(peer, L1BlockResponse(chain.l1(number)))

        origins = buses["l1"].serve("l1.origins", serve_refs)
        heads = buses["l1"].publish("status.l1")
        heads.set(L1Heads(chain.l1_ref(105), None, None))

        def send(request: list[Any]) -> None:
            blocks.send(StartRequest(*request))

        await _serve_requests(send)


async def _serve_requests(send: Callable[[list[Any]], None]) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    requests: list[list[Any]] = []
    received = b""

    def on_input() -> None:
        nonlocal received
        received += (data := os.read(0, 1 << 16))
        *lines, received = received.split(b"\n")
        if lines:
            requests[:] = orjson.loads(lines[-1])
        if not data:
            stop.set()

    loop.add_reader(0, on_input)
    while not stop.is_set():
        for request in requests:
            send(request)
        try:
            async with asyncio.timeout(REPEAT_SECONDS):
                await stop.wait()
        except TimeoutError:
            pass


def _print_message(message: Any) -> None:
    shown: dict[str, Any]
    match message:
        case L1Heads(head, _, finalized):
            shown = {"head": head and head.number, "finalized": finalized and finalized.number}
        case Health(problems):
            shown = {"problems": [str(problem) for problem in problems]}
        case L1BlockResponse(block):
            shown = {"block": block.header.number}
        case L1RefsResponse(last, refs, error):
            shown = {"refs": last, "count": len(refs), "error": None if error is None else str(error)}
        case BlobsResponse(block_hash, _):
            shown = {"blobs": int.from_bytes(block_hash, "big")}
        case InputResponse(commitment, data):
            shown = {"input": commitment.encode().hex(), "size": len(data)}
        case InputTooLarge(commitment, size):
            shown = {"too_large": commitment.encode().hex(), "size": size}
        case InputUnavailable(commitment, not_found, error):
            shown = {"missing": commitment.encode().hex(), "not_found": not_found, "error": error}
        case BlobsUnavailable(block_hash, _, error):
            shown = {"unavailable": int.from_bytes(block_hash, "big"), "error": error}
        case PipelineStart(reset):
            shown = {"start": reset}
        case Endpoints() | QueueLength():
            return
        case _:
            shown = {"unavailable": message.number, "error": None if message.error is None else str(message.error)}
    print(orjson.dumps(shown).decode(), flush=True)


_STAGES: dict[str, Callable[[bytes], Coroutine[Any, Any, None]]] = {
    **{"l1": _run_l1, "blobs": _run_blobs, "engine": _run_engine}
}


if __name__ == "__main__":
    main()
