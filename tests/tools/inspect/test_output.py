"""Text to a pipe whose reader is slow."""

import asyncio
import os
import threading

import pytest

from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.tools.inspect.output import write_text


async def test_everything_arrives_however_slow_the_reader_is() -> None:
    near, far = os.pipe()
    text = "sixteen letters\n" * 20_000
    read: list[bytes] = []

    def drain() -> None:
        while data := os.read(near, 1 << 12):
            read.append(data)

    reader = threading.Thread(target=drain)
    reader.start()
    try:
        await write_text(far, text)
        await write_text(far, "")
    finally:
        os.close(far)
        reader.join(10)
        os.close(near)
    assert b"".join(read).decode() == text


def test_a_reader_that_has_gone_ends_the_work_in_silence(capsys: pytest.CaptureFixture[str]) -> None:
    near, far = os.pipe()
    os.close(near)
    assert code_of_writing(far) == EXIT_REPORTED
    assert capsys.readouterr().err == ""


def test_no_room_ends_the_work_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of_writing(os.open("/dev/full", os.O_WRONLY)) == EXIT_REPORTED
    assert capsys.readouterr().err == "rollup-node: cannot write the results: No space left on device\n"


def code_of_writing(descriptor: int) -> int:
    try:
        with pytest.raises(ExitRequested) as raised:
            asyncio.run(write_text(descriptor, "text"))
    finally:
        os.close(descriptor)
    return raised.value.code
