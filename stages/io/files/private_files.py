"""Files and folders of this node alone.

One that belongs to another user, that others may write to, or that is a link is refused: whoever made it would
choose what the node overwrites, trusts or signals. Access control lists and the folders above are not looked at. On a
file system that keeps no modes, one that everybody may write to is taken with a warning [OPT86]."""

import contextlib
import errno
import os
import stat
from pathlib import Path

from rollup_node.stages.io.log.logger import Logger
from rollup_node.stages.messages.codes import Code

log = Logger("files")

_ROOT = 0
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_MOUNTS = Path("/proc/self/mountinfo")
_WITHOUT_MODES = frozenset(
    {"cifs", "smb3", "9p", "drvfs", "vfat", "msdos", "exfat", "ntfs", "ntfs3", "fuseblk", "fakeowner"}
)
"""File systems with one mode for all files: shares of Windows and Azure, FAT, and folders of Docker Desktop."""

_warned: set[str] = set()


class UnsafeFileError(OSError):
    """A file or folder that somebody else may control; `strerror` says why and what to do."""

    def __init__(self, reason: str, path: str | Path) -> None:
        super().__init__(errno.EPERM, reason, str(path))


def why_unusable(path: str | Path, error: OSError) -> str:
    """Return why a file that the node reads and writes cannot be used, and what to do about it."""
    folder = Path(path).absolute().parent
    if isinstance(error, FileNotFoundError) and not folder.exists():
        return f"its folder {folder} does not exist"
    unsafe = isinstance(error, UnsafeFileError)
    return str(error.strerror) if unsafe else f"{error.strerror}: give a path that this node may write"


def open_private_folder(path: str | Path, folder: int | None = None) -> int:
    """Open a folder, in the opened `folder` if that is given; the descriptor.

    Raises UnsafeFileError for a folder that somebody else may control, other OSErrors for one that cannot be opened."""
    if stat.S_ISLNK(os.stat(path, dir_fd=folder, follow_symlinks=False).st_mode):
        raise UnsafeFileError("is a symbolic link, give the folder itself", path)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    return _checked(descriptor, path)


def open_private_file(path: str | Path, flags: int, mode: int = 0o600, folder: int | None = None) -> int:
    """Open a regular file as os.open does, in the opened `folder` if that is given; the descriptor.

    `flags` must not truncate, for the check comes after. Raises UnsafeFileError for an unsafe file, and OSErrors."""
    try:
        # Without O_NONBLOCK opening a named pipe waits for its other end.
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        descriptor = os.open(path, flags, mode, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnsafeFileError("is a symbolic link, give the file itself", path) from None
        raise
    return _checked(descriptor, path, is_file=True)


def read_private_file(path: str | Path, longest: int, folder: int | None = None) -> bytes:
    """Return the first `longest` bytes of a file. Raises as open_private_file does."""
    descriptor = open_private_file(path, os.O_RDONLY, folder=folder)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(longest)


def read_secret_file(path: str | Path, longest: int) -> bytes:
    """Return the first `longest` bytes of a regular file.

    A link is followed if it belongs to this user or to root, since container platforms mount secrets as links.
    Raises UnsafeFileError for a file or a link of another user, and for a file that others may write to."""
    _check_owner(os.lstat(path), path)
    descriptor = _checked(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), path)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise UnsafeFileError("is not a regular file", path)
        return file.read(longest)


def create_private_file(path: str | Path, data: bytes) -> None:
    """Create a file that must not exist yet, and sync it to the disk."""
    descriptor = open_private_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def replace_private_file(path: Path, data: bytes, mode: int = 0o600, durable: bool = False) -> None:
    """Replace a file in a folder of this node atomically, by way of a file `<name>.new`.

    Readers see the old or the new content, also after a crash of the machine if it is `durable`. What is there under
    either name is removed, never written through. Raises UnsafeFileError when somebody else may control the folder."""
    folder = open_private_folder(path.parent)
    try:
        new = f"{path.name}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=folder)
        descriptor = open_private_file(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode, folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(descriptor)
        os.rename(new, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        if durable:
            os.fsync(folder)
    finally:
        os.close(folder)


def check_private_file(path: str | Path) -> None:
    """Raise UnsafeFileError for a file that open_private_file would refuse, for libraries that open files by name."""
    try:
        result = os.lstat(path)
    except FileNotFoundError:
        return
    if stat.S_ISLNK(result.st_mode):
        raise UnsafeFileError("is a symbolic link, give the file itself", path)
    _check(path, result, path, is_file=True)


def _checked(descriptor: int, path: str | Path, is_file: bool = False) -> int:
    try:
        _check(descriptor, os.fstat(descriptor), path, is_file)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def others_may_write(
    file: int | str | Path, value: os.stat_result, path: str | Path, others: int = _WRITABLE_BY_OTHERS
) -> bool:
    """Return whether `others` may write to a file, given its descriptor or path.

    Where its file system keeps no modes, that is a warning instead."""
    if not value.st_mode & others or _keeps_modes(file, value):
        return bool(value.st_mode & others)
    if str(path) not in _warned:
        _warned.add(str(path))
        text = "others may write to a file whose file system keeps no modes: mount it for this user alone"
        log.warn(text, code=Code.FILE.text, path=path, mode=f"{stat.S_IMODE(value.st_mode):o}")
    return False


def _keeps_modes(file: int | str | Path, value: os.stat_result) -> bool:
    """Whether chmod has an effect on a file; its mode stays as it is."""
    mode, user = stat.S_IMODE(value.st_mode), os.geteuid()
    try:
        os.chmod(file, mode & ~_WRITABLE_BY_OTHERS)
    except OSError as error:
        if error.errno != errno.EROFS and user in (value.st_uid, _ROOT):
            return False
        return _file_system(value.st_dev) not in _WITHOUT_MODES
    changed = stat.S_IMODE(os.stat(file).st_mode) != mode
    if changed:
        os.chmod(file, mode)
    return changed


def _file_system(device: int) -> str:
    """Return the type of the file system with the number of a device, empty where it is not known."""
    number = f"{os.major(device)}:{os.minor(device)}"
    with contextlib.suppress(OSError):
        for line in _MOUNTS.read_text(errors="replace").splitlines():
            mount, _, source = line.partition(" - ")
            if mount.split()[2:3] == [number]:
                return source.partition(" ")[0]
    return ""


def _check(file: int | str | Path, value: os.stat_result, path: str | Path, is_file: bool) -> None:
    _check_owner(value, path)
    if others_may_write(file, value, path):
        shown = stat.S_IMODE(value.st_mode)
        raise UnsafeFileError(f"others may write to it (mode {shown:o}): chmod go-w, or give another path", path)
    if is_file and not stat.S_ISREG(value.st_mode):
        raise UnsafeFileError("is not a regular file", path)
    if is_file and value.st_nlink > 1:
        raise UnsafeFileError("has other names (hard links): remove it, or give another path", path)


def _check_owner(value: os.stat_result, path: str | Path) -> None:
    user = os.geteuid()
    if value.st_uid not in (user, _ROOT):
        reason = f"it belongs to uid {value.st_uid}, this node runs as uid {user}: chown it, or give another path"
        raise UnsafeFileError(reason, path)
