"""Files that somebody else may control are refused; nothing is written through a link."""

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rollup_node.stages.io.files import private_files
from rollup_node.stages.io.files.private_files import (
    UnsafeFileError,
    check_private_file,
    create_private_file,
    open_private_folder,
    read_private_file,
    read_secret_file,
    replace_private_file,
)
from tests.support.foreign_user import FOREIGN_USER, needs_root

Change = Callable[[Path], object]


def link_elsewhere(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


UNSAFE = [
    pytest.param(lambda path: path.chmod(0o622), r"others may write to it \(mode 622\)", False, id="writable by all"),
    pytest.param(lambda path: path.chmod(0o660), r"others may write to it \(mode 660\)", False, id="by a group"),
    pytest.param(lambda path: path.with_name("second").hardlink_to(path), "has other names", True, id="hard link"),
    pytest.param(link_elsewhere, "is a symbolic link", True, id="symbolic link"),
    pytest.param(make_pipe, "is not a regular file", False, id="named pipe"),
    pytest.param(
        lambda path: os.chown(path, FOREIGN_USER, -1), "to uid 65534, this node", False, marks=needs_root, id="foreign"
    ),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("content")
    path.chmod(0o600)
    return path


def test_a_file_of_this_user_is_opened(file: Path) -> None:
    assert read_private_file(file, 100) == read_secret_file(file, 100) == b"content"
    assert read_private_file(file, 3) == read_secret_file(file, 3) == b"con"
    check_private_file(file)
    check_private_file(file.with_name("absent"))


@pytest.mark.parametrize(("change", "reason", "may_be_secret"), UNSAFE)
def test_a_file_that_others_may_control_is_refused(
    file: Path, change: Change, reason: str, may_be_secret: bool
) -> None:
    change(file)
    if may_be_secret:
        assert read_secret_file(file, 100) == b"content"
    uses: list[Change] = [check_private_file, partial(read_private_file, longest=100)]
    if not may_be_secret:
        uses.append(partial(read_secret_file, longest=100))
    for use in uses:
        with pytest.raises(UnsafeFileError, match=reason) as caught:
            use(file)
        assert caught.value.filename == str(file)


def test_a_file_is_created_once(tmp_path: Path) -> None:
    create_private_file(tmp_path / "new", b"content")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        create_private_file(tmp_path / "new", b"other")
    (tmp_path / "dangling").symlink_to("target")
    with pytest.raises(FileExistsError):
        create_private_file(tmp_path / "dangling", b"other")
    assert (tmp_path / "new").read_bytes() == b"content" and not (tmp_path / "target").exists()


def test_a_file_is_replaced_whole(file: Path) -> None:
    for content in (b"one", b"two"):
        replace_private_file(file, content)
        assert file.read_bytes() == content
    replace_private_file(file, b"three", 0o644)
    assert [path.name for path in file.parent.iterdir()] == ["file"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o644


@pytest.mark.parametrize("name", ["file", "file.new"])
def test_links_are_replaced_and_not_written_through(tmp_path: Path, name: str) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / name).symlink_to("precious")
    replace_private_file(tmp_path / "file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content" and not (tmp_path / "file").is_symlink()
    assert (tmp_path / "precious").read_text() == "precious"


def test_nothing_is_replaced_in_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(UnsafeFileError, match=r"mode 777"):
        replace_private_file(tmp_path / "file", b"content")
    assert list(tmp_path.iterdir()) == []


def test_a_linked_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    os.close(open_private_folder(tmp_path / "folder"))
    with pytest.raises(UnsafeFileError, match="is a symbolic link"):
        open_private_folder(tmp_path / "link")
    with pytest.raises(NotADirectoryError):
        (tmp_path / "file").touch()
        open_private_folder(tmp_path / "file")


@needs_root
def test_a_secret_behind_a_link_of_another_user_is_refused(file: Path) -> None:
    link_elsewhere(file)
    os.lchown(file, FOREIGN_USER, -1)
    with pytest.raises(UnsafeFileError, match="belongs to uid 65534"):
        read_secret_file(file, 100)


@needs_root
@pytest.mark.parametrize(("kind", "is_taken"), [("cifs", True), ("ext4", False)])
def test_the_type_of_the_file_system_decides_about_a_file_of_another(
    file: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, is_taken: bool
) -> None:
    """[OPT86] Azure's shares show files of root with mode 777 to a node that is not root, which may not change it."""
    device = file.stat().st_dev
    mounts = tmp_path / "mounts"
    mounts.write_text(f"36 35 {os.major(device)}:{os.minor(device)} / /data rw,noatime shared:1 - {kind} //host rw\n")
    monkeypatch.setattr(private_files, "_MOUNTS", mounts)
    monkeypatch.setattr(os, "geteuid", lambda: FOREIGN_USER)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    file.chmod(0o777)
    monkeypatch.setattr(os, "chmod", refuse)
    if is_taken:
        assert read_secret_file(file, 100) == b"content"
        return
    with pytest.raises(UnsafeFileError, match="mode 777"):
        read_secret_file(file, 100)
