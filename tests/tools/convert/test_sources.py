"""Command lines, files of variables and compose files are read, with the line of each word."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollup_node.node.system.exit_codes import SetupError
from rollup_node.tools.convert.sources import Source, read_sources


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(name: str, text: str, service: str | None = None, environ: dict[str, str] | None = None) -> Source:
    Path(name).write_text(text)
    return read_sources([name], service, environ or {})


def words(source: Source) -> list[tuple[str, str]]:
    return [(word.text, word.place.rpartition(" ")[2]) for word in source.words]


def test_a_command_line() -> None:
    text = '# how we start it\n\nA=1 OP_NODE_X="2 3" /usr/bin/op-node --l1=http://a \\\n  --l2 "b c" \\\n  --x\n'
    source = read("a.sh", text)
    assert source.program == "op-node"
    assert words(source) == [("--l1=http://a", "3"), ("--l2", "4"), ("b c", "4"), ("--x", "5")]
    assert source.variables["OP_NODE_X"] == ("2 3", "a.sh, line 3")


@pytest.mark.parametrize("line", ["docker run -e OP_NODE_X=1 img/op-node:v1 op-node --y", "exec kona-node --y"])
def test_what_comes_before_the_program_is_left_out(line: str) -> None:
    assert words(read("a.sh", line)) == [("--y", "1")]


def test_a_comment_is_a_word_that_begins_with_its_sign() -> None:
    source = read("a.sh", "op-node --l1=http://a/#b \\\n # c\n --l2=x # d\n")
    assert words(source) == [("--l1=http://a/#b", "1"), ("--l2=x", "3")]


def test_the_long_form_of_env_file(folder: Path) -> None:
    (folder / "a.env").write_text("OP_NODE_A=1\n")
    text = "services: {n: {image: op-node, env_file: [{path: a.env, required: true}]}}"
    assert read("c.yml", text).variables["OP_NODE_A"].text == "1"


def test_a_file_of_variables() -> None:
    source = read("a.env", "# c\nOP_NODE_A=1\nexport OP_NODE_B='2 3'\nOP_NODE_C=\nD=x=y\n")
    texts = {name: word.text for name, word in source.variables.items()}
    assert texts == {"OP_NODE_A": "1", "OP_NODE_B": "2 3", "OP_NODE_C": "", "D": "x=y"}
    assert source.variables["OP_NODE_B"].place == "a.env, line 3" and source.program == "op-node"


def test_several_files_together() -> None:
    Path("a.env").write_text("OP_NODE_A=1\n")
    Path("a.sh").write_text("op-node --b\n")
    source = read_sources(["a.env", "a.sh"], None, {})
    assert source.program == "op-node" and words(source) == [("--b", "1")] and "OP_NODE_A" in source.variables


COMPOSE = """
x-logs: &logs
  environment: {OP_NODE_LOG_LEVEL: debug}
services:
  geth: {image: geth, command: [--l1=no]}
  node:
    <<: *logs
    image: "example/op-node:v1.13"
    env_file: more.env
    command:
      - --l1=${L1}
      - --l2=${L2:-http://e}
      - --price=$$1
"""


def test_a_compose_file(folder: Path) -> None:
    (folder / ".env").write_text("L1=http://a\n")
    (folder / "more.env").write_text("OP_NODE_NETWORK=op-sepolia\n")
    source = read("compose.yaml", COMPOSE)
    assert source.program == "op-node"
    assert words(source) == [("--l1=http://a", "11"), ("--l2=http://e", "12"), ("--price=$1", "13")]
    assert source.variables["OP_NODE_LOG_LEVEL"] == ("debug", "compose.yaml, line 3")
    assert source.variables["OP_NODE_NETWORK"].place == "more.env, line 1"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("op-node --a --b=1", [("--a", "3"), ("--b=1", "3")]),
        ("|\n   op-node --a \\\n   --b", [("--a", "4"), ("--b", "5")]),
        ("[sh, -c, 'exec op-node --a']", [("--a", "3")]),
        ("[op-node, --a]", [("--a", "3")]),
    ],
)
def test_the_forms_of_a_command(command: str, expected: list[tuple[str, str]]) -> None:
    assert words(read("c.yml", f"services:\n node:\n  command: {command}\n")) == expected


def test_a_service_is_chosen() -> None:
    two = "services:\n a: {image: op-node}\n b: {image: kona-node, environment: [KONA_NODE_X=1, NO]}\n"
    assert read("c.yml", two, "b").variables["KONA_NODE_X"].text == "1"
    with pytest.raises(SetupError, match=r"a, b of c\.yml do: choose one with --service"):
        read("c.yml", two)
    with pytest.raises(SetupError, match='no service "z"; there are a, b'):
        read("c.yml", two, "z")


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("a.sh", "op-node \\\n--l1='x\n", "a.sh, line 2: a quote has no end"),
        ("a.sh", "op-node\n--l1=$L1\n", "a.sh, line 2: the value of a variable of the shell"),
        ("c.yml", "services:\n a: [\n", "c.yml, line 3 is not YAML"),
        ("c.yml", "", "c.yml is empty"),
        ("c.yml", "a: 1\n", "c.yml has no services"),
        ("c.yml", "services: 1\n", "c.yml, line 1: a mapping is expected"),
        ("c.yml", "services: {a: {image: x}}\n", "none in c.yml does"),
        ("c.yml", "services:\n a:\n  image: op-node\n  command: [[1]]\n", "c.yml, line 4: a text is expected"),
        ("c.yml", "services:\n a: {command: 'op-node $X'}\n", "line 2: the variable X has no value: put it into .env"),
        ("c.yml", "services:\n a: {command: 'op-node ${X:?y}'}\n", "the variable X has no value"),
        ("c.yml", "services: " + "{a: " * 60 + "1" + "}" * 60, "c.yml, line 1: it is nested too deeply"),
        ("c.yml", "services:\n a: {image: op-node, env_file: no.env}\n", "cannot read no.env: No such file"),
        ("c.yml", "a: &a {<<: *a}\nservices: *a\n", "none in c.yml does"),
        ("a.sh", "x" * ((1 << 20) + 1), "is longer than"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(name: str, text: str, error: str) -> None:
    with pytest.raises(SetupError, match="(?s)" + error.replace(".", r"\.").replace("[", r"\[")):
        read(name, text)


def test_merged_mappings_that_would_grow_without_end_are_read_at_once() -> None:
    levels = "".join(f"a{n + 1}: &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}\n" for n in range(40))
    read("c.yml", f"a0: &a0 {{image: op-node}}\n{levels}services: {{n: *a40}}\n")


def test_bytes_that_are_no_text(folder: Path) -> None:
    (folder / "a.sh").write_bytes(b"\xff\xfe")
    with pytest.raises(SetupError, match="is not text in UTF-8"):
        read_sources(["a.sh"], None, {})


@settings(max_examples=40)
@given(text=st.text(max_size=200), name=st.sampled_from(["a.sh", "c.yaml"]))
def test_any_text_is_read_or_refused_in_one_line(text: str, name: str) -> None:
    try:
        read(name, text)
    except SetupError as error:
        assert "\n" not in str(error)
    except UnicodeEncodeError:
        pass
