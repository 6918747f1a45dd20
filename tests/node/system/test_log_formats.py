"""The formats of log lines."""

import json
import os
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.system.log_formats import FORMATS, LogSettings, formatter
from rollup_node.stages.io.log.logger import Level, Record
from rollup_node.stages.messages.log_fields import FieldValue, seconds

MOMENT = 1_724_000_000.125


def record(
    message: str = "new head", traceback: str | None = None, component: str = "l1", **fields: FieldValue
) -> Record:
    return Record(MOMENT, Level.INFO, "l1", component, message, fields, traceback)


def test_text_is_logfmt() -> None:
    line = formatter(LogSettings())(record(number=5, hash=b"\x01\xff", empty="", odd='a "b"', none=None, yes=True))
    assert line == (
        b't=2024-08-18T16:53:20.125Z lvl=info process=l1 msg="new head" number=5 hash=0x01ff empty="" '
        b'odd="a \\"b\\"" none=null yes=true\n'
    )


def test_the_component_is_named_where_it_is_not_the_process() -> None:
    assert b" process=l1 component=heads msg=hi\n" in formatter(LogSettings())(record("hi", component="heads"))


def test_a_process_of_a_chain_is_named_with_it() -> None:
    """[LIF33]"""
    line = record("hi", chain="10")._replace(process="l1.10")
    assert b" process=l1.10 msg=hi chain=10\n" in formatter(LogSettings())(line)
    shown = json.loads(formatter(LogSettings(format="json"))(line))
    assert (shown["process"], shown["chain"], "component" in shown) == ("l1.10", "10", False)


@pytest.mark.option("log.pid")
def test_the_process_id_is_shown_with_the_option() -> None:
    pid = os.getpid()
    assert f" pid={pid} ".encode() in formatter(LogSettings(pid=True))(record())
    assert json.loads(formatter(LogSettings(format="json", pid=True))(record()))["pid"] == pid
    assert f" pid={pid}".encode() in formatter(LogSettings(format="terminal", pid=True))(record())


@pytest.mark.option("log.format")
def test_json_is_one_object_per_line() -> None:
    line = formatter(LogSettings(format="json"))(record(number=1 << 200, msg="taken", hash=b"\x01", nan=float("nan")))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "t": "2024-08-18T16:53:20.125Z",
        "lvl": "info",
        "process": "l1",
        "msg": "new head",
        "number": 1 << 200,
        "msg_": "taken",
        "hash": "0x01",
        "nan": None,
    }


def test_the_code_comes_first_and_no_json_is_nested() -> None:
    """[LOG4, LOG20] A list, which only a bug can log, is text."""
    fields: dict[str, Any] = {"at": ["1", ("2",)], **seconds("waited", 83.26), "code": "BEHIND"}
    line = json.loads(formatter(LogSettings(format="json"))(record(**fields)))
    assert list(line) == ["t", "lvl", "msg", "code", "process", "at", "waited_s"]
    assert (line["at"], line["waited_s"]) == ("['1', ('2',)]", 83.3)
    text = formatter(LogSettings())(record(**fields)).decode()
    assert text.endswith(""" code=BEHIND at="['1', ('2',)]" waited=1m23s\n""")


def test_pretty_json_is_the_same_over_several_lines() -> None:
    pretty = formatter(LogSettings(format="json-pretty"))(record(number=5))
    assert pretty.count(b"\n") > 5
    assert json.loads(pretty) == json.loads(formatter(LogSettings(format="json"))(record(number=5)))


@pytest.mark.option("log.color")
def test_color_acts_on_text_and_terminal_only() -> None:
    for form in FORMATS:
        line = formatter(LogSettings(format=form, color=True))(record(number=5))
        assert (b"\x1b[32m" in line) == (form in ("text", "terminal"))
    assert b"\x1b" not in formatter(LogSettings(format="terminal"))(record(number=5))


def test_a_traceback_follows_its_line() -> None:
    line = formatter(LogSettings())(record("a bug", traceback="Traceback:\n  one\n\x1b[2Jtwo\n"))
    assert line.endswith(b'msg="a bug"\nTraceback:\n  one\n\\x1b[2Jtwo\n')
    assert (
        json.loads(formatter(LogSettings(format="json"))(record("a bug", traceback="one\ntwo")))["trace"] == "one\ntwo"
    )


@given(st.text(), st.text(), st.sampled_from(FORMATS))
def test_no_text_breaks_a_line_or_reaches_the_terminal_raw(message: str, value: str, form: str) -> None:
    line = formatter(LogSettings(format=form))(record(message, value=value)).decode()
    if form.startswith("json"):
        assert (json.loads(line)["msg"], json.loads(line)["value"]) == (message, value)
    else:
        assert line.endswith("\n")
        assert line[:-1].isprintable()
