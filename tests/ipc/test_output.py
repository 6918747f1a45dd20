"""Text to a pipe whose reader is slow."""

import asyncio
import os
import threading

from rollup_node.ipc.output import write_text


def test_everything_arrives_however_slow_the_reader_is() -> None:
    near, far = os.pipe()
    text = "sixteen letters\n" * 20_000
    read: list[bytes] = []

    def drain() -> None:
        while data := os.read(near, 1 << 12):
            read.append(data)

    reader = threading.Thread(target=drain)
    reader.start()

    async def write() -> None:
        await write_text(far, text)
        await write_text(far, "")

    try:
        asyncio.run(write())
    finally:
        os.close(far)
        reader.join(10)
        os.close(near)
    assert b"".join(read).decode() == text
