"""The options file."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rollup_node.node.options.errors import OptionError
from rollup_node.node.options.parsing import parse_options, read_options
from rollup_node.node.options.values import Values

Write = Callable[[str | bytes], Values]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def parse(text: str | bytes) -> Values:
        file = tmp_path / "node.toml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return parse_options([f"--config={file}"], {}).values

    return parse


@pytest.mark.option("config")
@pytest.mark.parametrize(
    "text",
    [
        '"l1" = "http://a"\n"l1.beacon" = "http://b"\n"l1.trustrpc" = true\n"l1.cache-size" = 7\n',
        '[l1]\nvalue = "http://a"\ntrustrpc = true\ncache-size = 7\n[l1.beacon]\nvalue = "http://b"\n',
        'l1.value = "http://a"\nl1.beacon = "http://b"\nl1.trustrpc = true\nl1.cache-size = 7\n',
    ],
)
def test_flat_or_nested(write: Write, text: str) -> None:
    values = write(text)
    assert values["l1"] == ("http://a",)
    assert values["l1.beacon"] == "http://b"
    assert values["l1.trustrpc"] is True
    assert values["l1.cache-size"] == 7


def test_numbers_durations_and_lists(write: Write) -> None:
    values = write(
        'l1.rpc-rate-limit = 2.5\nl1.http-poll-interval = "500ms"\n"p2p.static" = ["a", "b"]\n'
        '"signer.header" = ["x=1,2"]\n"p2p.bootnodes" = "c,d"\n'
    )
    assert values["l1.rpc-rate-limit"] == 2.5
    assert values["l1.http-poll-interval"] == 0.5
    assert values["p2p.static"] == ("a", "b")
    assert values["p2p.bootnodes"] == ("c", "d")
    assert values["signer.header"] == (("x", "1,2"),)
    assert write("l1.rpc-rate-limit = 0.00001")["l1.rpc-rate-limit"] == 0.00001


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l1.becon = 1", 'unknown option "l1.becon" in file'),
        ("l1.becon = 1", "did you mean l1.beacon?"),
        ("config = 'x'", "a file cannot name another file"),
        ("rpc.port = [1]", "cannot be a list: expected a whole number from 0 to 65535"),
        ("rpc.port = 1979-05-27", "cannot be a date"),
        ("p2p.static = [1]", "option p2p.static in file"),
        ("rpc.port = 'x'", 'invalid value "x" for rpc.port in file'),
        ("l1 = 'http://a'\nl1.beacon = 'http://b'", 'quote both: "l1" = '),
        ("= 3", "is not TOML"),
        ('rpc.port = 1\nl1 = "x\n', "node.toml, line 2 is not TOML: a text has no closing quote"),
        ("rpc.port: 1", "it looks like YAML, for which its name has to end with .yaml"),
        ('{"rpc.port": [}', "is not YAML: "),
        ("{a: &x [1], b: *x}", "is not YAML: aliases are not read"),
        ("{[1]: 2}", "is not YAML: "),
        ('{"l1": "a",\n "l2": "b",\n "l1": "c"}', ', line 3 is not YAML: "l1" is there twice'),
        ('"l1.beacon" = "http://a"\n[l1]\nbeacon = "http://b"\n', "option l1.beacon is given twice in file"),
        ('{"l1": ' + "[" * 5000, "is not YAML: it is nested too deeply"),
        ('{"l1": [' + "a," * 60_000 + "]}", "is not YAML: it has too many values"),
        ('{"p2p.sequencer.key": {"5eb4": 1}}', 'unknown option "p2p.sequencer.key.***" in file'),
        (b"\xff", "is not text in UTF-8"),
        ("a = " + "[" * 3000, "is nested too deeply"),
        ("[a" + ".b" * 3000 + "]\nc = 1", "has a key of more than 20 parts"),
        ("rpc.port = " + "9" * 4000, "cannot be a number so long: expected a whole number from 0 to 65535"),
        ("rpc.port = " + "9" * 5000, "is not TOML: Exceeds the limit"),
        ("#" * (1 << 20) + "\n", "is longer than 1048576 characters"),
        ("p2p.static = ['--']", 'invalid value "--" for p2p.static in file'),
    ],
)
def test_an_error_names_the_file(write: Write, text: str | bytes, expected: str) -> None:
    with pytest.raises(OptionError) as caught:
        write(text)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


YAML = """l1:
  value: http://a
  beacon: http://b
rpc.port: 7
p2p.static: [a, b]
signer.address: 0x1111111111111111111111111111111111111111
"""
JSON = '{"l1": "http://a", "l1.beacon": "http://b", "rpc.port": 7, "p2p.static": ["a", "b"], "signer.address": "%s"}'


@pytest.mark.option("config")
@pytest.mark.parametrize(
    ("name", "text"), [("a.yaml", YAML), ("a.json", JSON % ("11" * 20)), ("a.conf", JSON % ("11" * 20))]
)
def test_yaml_and_json(tmp_path: Path, name: str, text: str) -> None:
    """[OPT1] Values are texts as they are written, so an address is no number."""
    file = tmp_path / name
    file.write_text(text)
    values = read_options([f"--config={file}"], {}).values
    assert [values[key] for key in ("l1", "l1.beacon", "rpc.port")] == [("http://a",), "http://b", 7]
    assert values["p2p.static"] == ("a", "b") and values["signer.address"] == b"\x11" * 20
