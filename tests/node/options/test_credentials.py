"""Options in files of a folder: systemd's credentials, secrets of Kubernetes [OPT87]."""

import os
from pathlib import Path

import pytest

from rollup_node.node.options.credentials import FOLDER, MAX_FILE, read_credentials
from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.values import NodeOptions

KEY = "5e" * 32


def read(folder: Path, *words: str, **environ: str) -> NodeOptions:
    return read_options(words, {FOLDER: str(folder), **environ})


def test_the_content_of_a_file_is_the_value_of_the_option_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "p2p.sequencer.key").write_text(f"0x{KEY}\n")
    (tmp_path / "l1").write_text("http://a/key1,http://b/key2\n")
    (tmp_path / "signer.header").write_text("X-Key=12")
    parsed = read(tmp_path)
    assert parsed.errors == () and parsed.warnings == ()
    assert parsed.values["p2p.sequencer.key"] == bytes.fromhex(KEY)
    assert parsed.values["l1"] == ("http://a/key1", "http://b/key2")
    assert parsed.values["signer.header"] == (("X-Key", "12"),)
    assert parsed.values.source("p2p.sequencer.key") == f"credential p2p.sequencer.key in {tmp_path}"


def test_the_path_of_a_file_is_the_value_of_an_option_that_takes_one(tmp_path: Path) -> None:
    for name in ("l2.jwt-secret", "signer.tls.key"):
        (tmp_path / name).write_bytes(b"\xff of any content")
        assert read(tmp_path).values[name] == str(tmp_path / name)


def test_a_flag_wins_over_a_variable_over_a_credential_over_the_file(tmp_path: Path) -> None:
    file, folder = tmp_path / "node.toml", tmp_path / "folder"
    file.write_text('"l1.rpckind" = "alchemy"\n"log.level" = "error"')
    folder.mkdir()
    (folder / "l1.rpckind").write_text("infura")
    words, variables = (f"--config={file}", "--l1.rpckind=any"), {"NODE_L1_RPC_KIND": "erigon"}
    for values, kind, source in (
        (read(folder, *words, **variables).values, "any", "flag --l1.rpckind"),
        (read(folder, words[0], **variables).values, "erigon", "variable NODE_L1_RPC_KIND (--l1.rpckind)"),
        (read(folder, words[0]).values, "infura", f"credential l1.rpckind in {folder}"),
        (read_options(words[:1], {}).values, "alchemy", f"l1.rpckind in file {file}"),
    ):
        assert (values["l1.rpckind"], values.source("l1.rpckind")) == (kind, source)
        assert values["log.level"].label == "error"


def test_links_of_kubernetes_are_followed_and_other_names_ignored(tmp_path: Path) -> None:
    (tmp_path / "..2026_11_29").mkdir()
    (tmp_path / "..2026_11_29" / "l1.beacon-header").write_text("X: y")
    (tmp_path / "..data").symlink_to("..2026_11_29")
    (tmp_path / "l1.beacon-header").symlink_to("..data/l1.beacon-header")
    for name in ("tls.crt", "config", "l2.jwt-secrets"):
        (tmp_path / name).write_text("x")
    parsed = read(tmp_path)
    assert parsed.values["l1.beacon-header"] == ("X", "y") and parsed.values["config"] is None
    assert parsed.warnings == ("credential l2.jwt-secrets is no option and is ignored; did you mean l2.jwt-secret?",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\xff\xfe", "not text in UTF-8"),
        (b"5" * (MAX_FILE + 1), f"longer than {MAX_FILE} bytes"),
        (b"--", 'invalid value "--" for credential p2p.sequencer.key'),
        (b"hunter2", "invalid value for credential p2p.sequencer.key in {}: expected a private key"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "p2p.sequencer.key").write_bytes(content)
    (line,) = read(tmp_path).errors
    assert reason.format(tmp_path) in line and "hunter2" not in line


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p2p.sequencer.key").write_text(KEY)
    (tmp_path / "p2p.sequencer.key").chmod(0o666)
    (line,) = read(tmp_path).errors
    assert "others may write to it" in line


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p2p.priv.raw").mkdir()
    os.mkfifo(tmp_path / "p2p.sequencer.key")
    lines = read(tmp_path).errors
    assert len(lines) == 2 and "Is a directory" in lines[0] and "is not a regular file" in lines[1]


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    (line,) = read(tmp_path / "none").errors
    assert line.startswith("variable CREDENTIALS_DIRECTORY names") and line.endswith("No such file or directory")
    assert read_credentials({FOLDER: ""}).values == {}
