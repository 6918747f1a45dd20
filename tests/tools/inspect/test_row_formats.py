"""Rows in each form: a header where the form has one, and values that no form breaks."""

import asyncio
import csv
import json
import os
import threading

import pytest

from rollup_node.stages.io.task import EXIT_REPORTED, ExitRequested
from rollup_node.tools.inspect.row_formats import (
    Column,
    RowFormat,
    RowFormatter,
    RowLayout,
    write_text,
)


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


LAYOUT = RowLayout(
    (Column("NUMBER", 6, right=True), Column("NAME", 4)),
    lambda values: (str(values["number"]), values["name"]),
    lambda values: f"number {values['number']}",
    ("number", "name", "parts", "absent"),
    lambda values: values | {"parts": ["a", "b"]},
)
ROWS = ({"number": 7, "name": "x"}, {"number": 123, "name": 'y,"z\n'})


def written(form: RowFormat) -> str:
    rows = RowFormatter(form, LAYOUT)
    return "".join(rows.row(values) for values in ROWS) + rows.end()


def test_each_form() -> None:
    assert written(RowFormat.TEXT) == "number 7\nnumber 123\n"
    assert written(RowFormat.TABLE).splitlines()[:2] == ["NUMBER  NAME", "     7  x"]
    assert [json.loads(line) for line in written(RowFormat.JSON).splitlines()] == list(ROWS)
    header, *records = csv.reader(written(RowFormat.CSV).splitlines(keepends=True))
    assert header == list(LAYOUT.fields)
    assert records == [["7", "x", "a b", ""], ["123", 'y,"z\n', "a b", ""]]
