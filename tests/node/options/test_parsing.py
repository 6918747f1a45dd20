"""From command line, environment and file to values."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollup_node.node.options.errors import OptionError, WrongOptions
from rollup_node.node.options.file import OptionsFile
from rollup_node.node.options.parsing import normalized, parse_options, requested_information
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.values import Values


def parse(*words: str, **environ: str) -> Values:
    return parse_options(words, environ).values


def error_of(*words: str, **environ: str) -> str:
    with pytest.raises(OptionError) as caught:
        parse_options(words, environ)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_without_options_all_defaults_hold() -> None:
    values = parse()
    assert values.names_given() == []
    assert values["l1"] == ("http://127.0.0.1:8545",)
    assert values["l1.epoch-poll-interval"] == 384.0
    assert values["l1.beacon"] is None
    assert values["p2p.static"] == ()
    assert values["p2p.sync.req-resp"] is True
    assert not values.given("override.canyon")


@pytest.mark.parametrize(
    "words", [("--l1.cache-size=7",), ("--l1.cache-size", "7"), ("-l1.cache-size", "7"), ("-l1.cache-size=7",)]
)
def test_every_form_of_a_flag(words: tuple[str, ...]) -> None:
    assert parse(*words)["l1.cache-size"] == 7


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("--l1.trustrpc",), True),
        (("--l1.trustrpc=true",), True),
        (("--l1.trustrpc=false",), False),
        (("--l1.trustrpc", "false"), False),
        (("--l1.trustrpc", "--log.pid"), True),
        (("--l1.trustrpc=0",), False),
    ],
)
def test_booleans_bare_or_with_a_value(words: tuple[str, ...], value: bool) -> None:
    assert parse(*words)["l1.trustrpc"] is value


def test_negative_values_need_no_equals_sign() -> None:
    assert parse("--p2p.ban.threshold", "-50")["p2p.ban.threshold"] == -50
    assert parse("--l1.epoch-poll-interval", "-1s")["l1.epoch-poll-interval"] == -1


def test_a_repeated_flag_replaces_the_value_or_extends_the_list() -> None:
    values = parse(
        "--rpc.port=1", "--rpc.port=2", "--l1.beacon-fallbacks=http://a,http://b", "--l1.beacon-archiver=http://c"
    )
    assert values["rpc.port"] == 2
    assert values["l1.beacon-fallbacks"] == ("http://a", "http://b", "http://c")


def test_lists_do_not_mix_sources(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('"p2p.static" = ["a", "b"]\n')
    assert parse(f"--config={file}")["p2p.static"] == ("a", "b")
    assert parse(f"--config={file}", NODE_P2P_STATIC="c, d,")["p2p.static"] == ("c", "d")
    assert parse(f"--config={file}", "--p2p.static=e", NODE_P2P_STATIC="c")["p2p.static"] == ("e",)


def test_signer_headers_are_split_at_commas_only_in_the_environment() -> None:
    assert parse("--signer.header=a=1,2", "--signer.header", "b=3")["signer.header"] == (("a", "1,2"), ("b", "3"))
    assert parse(NODE_SIGNER_HEADER="a=1,b=2")["signer.header"] == (("a", "1"), ("b", "2"))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--l1.becon=x",), "unknown flag --l1.becon; did you mean --l1.beacon?"),
        (("--nothing-like-it",), "unknown flag --nothing-like-it"),
        (("-x",), "unknown flag -x"),
        (("--override.fjrd=1",), "unknown flag --override.fjrd; did you mean --override.fjord?"),
        (("--override.foo=1",), "unknown flag --override.foo; there are canyon, delta, "),
        (("--network",), "flag --network needs a value: expected a name such as op-mainnet (rollup-node networks "),
        (("--versoin",), "unknown flag --versoin; did you mean --version?"),
        (("---l1=http://a",), 'unexpected argument "---l1=http://a": options start with --'),
        (("--l1.cache",), "unknown flag --l1.cache"),
        (("--l1",), "flag --l1 needs a value: expected an address such as http://127.0.0.1:8545"),
        (("--rpc.port", "--log.pid"), "flag --rpc.port needs a value: expected a whole number from 0 to 65535"),
        (("word",), 'unexpected argument "word": options start with --'),
        (("--log.pid", "maybe"), 'unexpected argument "maybe"'),
        (("--",), 'unexpected argument "--"'),
        (("--rpc.port=x",), 'invalid value "x" for flag --rpc.port: expected a whole number from 0 to 65535'),
        (("--syncmode=snap",), 'invalid value "snap" for flag --syncmode: expected one of consensus-layer, execution-'),
        (
            ("--rollup.halt=all",),
            'invalid value "all" for flag --rollup.halt: expected one of major, minor, patch, none',
        ),
        (("--l1.http-poll-interval=x",), 'invalid value "x" for flag --l1.http-poll-interval: expected a duration'),
        (
            ("--l1.http-poll-interval=5",),
            'invalid value "5" for flag --l1.http-poll-interval: a duration has a unit: 5s?',
        ),
        (("--l1=ftp://h",), 'invalid value "ftp://h" for flag --l1: it takes http or https or ws or wss, not ftp'),
        (("--l2=localhost:8551",), 'invalid value "localhost:8551" for flag --l2: did you mean http://localhost:8551?'),
        (
            ("--l1=http://u:key@h:99999/v3/key",),
            'invalid value "http://***@h:99999/..." for flag --l1: port 99999 is not',
        ),
        (("--l1=http://u:ke/y@h:8545:/v3/key",), 'invalid value "http://***@h:8545:/..." for flag --l1: expected an'),
        (("--network=--",), 'invalid value "--" for flag --network'),
        (("--network=a\nb",), 'invalid value "a\\nb" for flag --network: expected a name such as op-mainnet'),
        (("--config=/nowhere/x.toml",), "--config /nowhere/x.toml: no such file or directory"),
        (("--p2p.sequencer.key=abc",), "invalid value for flag --p2p.sequencer.key: expected a private key"),
    ],
)
def test_an_error_names_the_flag(words: tuple[str, ...], text: str) -> None:
    assert error_of(*words).startswith(text)


@pytest.mark.fault("F60")
def test_a_secret_is_never_shown() -> None:
    assert "hunter2" not in error_of("--p2p.sequencer.key=hunter2")
    assert "hunter2" not in error_of("--l1.beacon-header=hunter2")


@pytest.mark.parametrize(
    ("words", "requested"),
    [
        (("-h",), "--help"),
        (("--l1=x", "--help"), "--help"),
        (("--help-all",), "--help-all"),
        (("-v",), "--version"),
        (("-help",), "--help"),
        (("--l1", "x"), None),
    ],
)
def test_requested_information(words: tuple[str, ...], requested: str | None) -> None:
    assert requested_information(words) == requested


WORDS = st.text(max_size=12) | st.sampled_from([f"--{name}" for name in OPTIONS] + ["true", "-1s", "--"])
VARIABLES = st.sampled_from([option.variable for option in OPTIONS.values() if option.name != "config"])


@given(st.lists(WORDS, max_size=6))
def test_any_command_line_is_parsed_or_rejected_in_one_line(words: list[str]) -> None:
    flags = normalized(words, OptionsFile.scope_of)
    assert all(word.startswith("--") and "=" in word for word in flags.words)
    assert not any("\n" in error for error in flags.errors)


def test_all_errors_are_found_at_once(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('"rpc.prot" = 3\n"metrics.port" = [3]\n')
    words = ("--l1.becon", "http://b", "--rpc.port=x", "word", f"--config={file}", "--l1")
    with pytest.raises(WrongOptions) as caught:
        parse_options(words, {"NODE_L1_CACHE_SIZE": "many", "NODE_PPROF_PORT": "--"})
    assert [line.split(":")[0].split(";")[0] for line in caught.value.lines] == [
        "unknown flag --l1.becon",
        'unexpected argument "word"',
        "flag --l1 needs a value",
        'invalid value "--" for variable NODE_PPROF_PORT',
        f'unknown option "rpc.prot" in file {file}',
        f"option metrics.port in file {file} cannot be a list",
        'invalid value "many" for variable NODE_L1_CACHE_SIZE (--l1.cache-size)',
        'invalid value "x" for flag --rpc.port',
    ]


@given(st.dictionaries(VARIABLES, st.text(max_size=12), max_size=4))
def test_any_environment_is_parsed_or_rejected_in_one_line(environ: dict[str, str]) -> None:
    try:
        parse_options([], environ)
    except OptionError as error:
        assert "\n" not in str(error)
