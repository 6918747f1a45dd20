"""`rollup-node bundle`: one archive with what a report of a fault needs, and no secret [CMD18]."""

import base64
import http.client
import io
import json
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import orjson

from rollup_node.node.checks.finding import Finding
from rollup_node.node.options.errors import OptionError, error_lines
from rollup_node.node.options.given_files import regular_file
from rollup_node.node.options.option import AnyOption
from rollup_node.node.options.parsing import read_options
from rollup_node.node.options.supernode import are_for_supernode, read_supernode_options
from rollup_node.node.options.values import NodeOptions, Values
from rollup_node.node.setup.secrets import DEFAULT_FILE
from rollup_node.node.supernode import chain_values
from rollup_node.node.supervisor.metrics import SUPERVISOR
from rollup_node.node.system.exit_codes import PROGRAM, ExitCode, SetupError, version
from rollup_node.node.system.resources import usable_cores
from rollup_node.node.system.runtime_dir import METRICS, RPC_URL, read_processes
from rollup_node.stages.io.files.private_files import create_private_file, why_unusable
from rollup_node.stages.io.task import ProcessEntry
from rollup_node.tools.commands.check import check, check_supernode, findings_json
from rollup_node.tools.commands.config import settings, settings_rows
from rollup_node.tools.commands.flags import FlagParser
from rollup_node.tools.commands.health import own_directories

MASK = "***"
MIN_SECRET = 4
"""Characters of a secret that is looked for: shorter ones are in every text. Such URLs are cut all the same."""
MIN_PATH = 8
"""Characters of a part of a path: shorter ones are words such as `rpc` or `beacon`."""

_URL = re.compile(r"\b([a-z][a-z0-9+.-]*:/{1,3})([^\s\"'<>\\]*)", re.IGNORECASE)
_TOKEN = re.compile(r"\beyJ[\w-]+(?:\.[\w-]+){1,2}")
_HEADER = re.compile(r"(authorization|proxy-authorization|cookie|x-api-key|api-key)(\W{1,4})[^\r\n\"']+", re.IGNORECASE)
_BEARER = re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.IGNORECASE)
_PEM = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


class Redactor:
    """Removes secrets from texts; `secrets` are texts such as keys, passwords and headers."""

    def __init__(self, secrets: Iterable[str]) -> None:
        forms = {form for secret in secrets for form in _forms(secret) if len(form) >= MIN_SECRET}
        longest_first = sorted(forms, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first)) or r"(?!)", re.IGNORECASE)

    def text(self, text: str) -> str:
        """Return the text with a mask in place of each secret, and URLs as far as their hosts."""
        text = self._known.sub(MASK, _PEM.sub(MASK, text))
        text = _URL.sub(lambda match: match[1] + _host(match[2]), text)
        text = _BEARER.sub(rf"\1 {MASK}", _HEADER.sub(rf"\1\2{MASK}", text))
        return self._known.sub(MASK, _TOKEN.sub(MASK, text))


def _host(rest: str) -> str:
    """Return what follows the scheme of a URL without user, path and query."""
    authority, slash, after = re.split(r"([/?#]|\Z)", rest, maxsplit=1)
    user, at, host = authority.rpartition("@")
    # A password may have a slash, though that is no URL.
    if "@" in after:
        return f"{MASK}@{_host(after.rpartition('@')[2])}"
    return f"{MASK if user else ''}{at}{host}" + (f"{slash}{MASK}" if after else slash)


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as programs write it: quoted, in JSON, in base64, as bytes of Python, with and without 0x."""
    secret = secret.strip()
    for text in {secret, unquote(secret)}:
        data = text.encode(errors="surrogatepass")
        yield from (text, quote(text, safe=""), quote(text), json.dumps(text)[1:-1], repr(text)[1:-1], repr(data)[2:-1])
        yield from _base64(data)
    digits = secret[2:] if secret[:2] in ("0x", "0X") else secret
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        return
    yield from (digits, repr(data)[2:-1], *_base64(data))


def _base64(data: bytes) -> Iterator[str]:
    """Yield bytes in base64: whole, and without the end, which is another with a newline after it as files have it."""
    for part in (data, data[: len(data) // 3 * 3]):
        yield from (encode(part).decode().rstrip("=") for encode in (base64.b64encode, base64.urlsafe_b64encode))


def secrets_in_options(options: Iterable[tuple[AnyOption, Sequence[str]]]) -> Iterator[str]:
    """Yield the secrets in the texts of options, valid or not: keys, headers, and parts of URLs."""
    for option, whole in options:
        texts = [part for text in whole for part in (text, *text.split(","))]
        if option.secret:
            for text in texts:
                yield text
                yield text.partition(":")[2]
                yield text.partition("=")[2]
        elif "url" in option.value_type.label or "://" in " ".join(texts):
            for text in texts:
                yield from _secrets_in_url(text)


def _secrets_in_url(text: str) -> Iterator[str]:
    """Yield user and password, and what follows the host: the keys of providers are there."""
    after_scheme = text.partition("://")[2]
    user, at, host = after_scheme.rpartition("@")
    if at:
        yield from (user, *user.split(":", 1))
        yield user.partition(":")[2]
    path = re.split(r"[/?#]", host, maxsplit=1)
    if len(path) < 2:
        return
    yield from (part for part in (path[1], *re.split(r"[/?#&]", path[1])) if len(part) >= MIN_PATH)
    try:
        query = urlsplit(text).query
    except ValueError:
        return
    yield from (part.partition("=")[2] for part in query.split("&"))


DESCRIPTION = """Writes one archive for a report: options, status, metrics and processes of the node that runs here, the
end of its log with what the engine process received last before a bug, versions, and the findings of `rollup-node
check`. Keys, secrets and what follows the host in addresses are masked in all of it. Look at it before you send it."""
EPILOG = """Options are given as to the node (rollup-node --help-all) or to rollup-node supernode. Without them there
are neither options nor a check."""
LINES = 1000
MAX_LOG, MAX_ANSWER, MAX_FILE, MAX_STIMULI = 8 << 20, 4 << 20, 1 << 16, 5000
SECONDS = 5.0
STIMULI = "last stimuli of the engine core"
_RECORD = re.compile(r"t=\d{4}-|\{|[A-Z]{4,5} *\[")
"""How a record of the log begins, in each of its formats."""
_UNIT = re.compile(r"/([^/]+\.service)(?:/|$)", re.MULTILINE)
_SECRET_FILES = (
    *("l2.jwt-secret", "rpc.jwt-secret", "interop.jwt-secret"),
    *("p2p.priv.path", "p2p.sequencer.key.path", "signer.tls.key"),
)


def main(arguments: Sequence[str]) -> int:
    """Write the archive. Raises SetupError where that is impossible."""
    parser = FlagParser("bundle", DESCRIPTION, EPILOG)
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    name = f"{PROGRAM}-bundle-{moment}"
    parser.add_argument("--out", default=f"{name}.tar.gz", metavar="FILE", help="the archive; default: here, by time")
    parser.add_argument("--log", metavar="FILE", help="the log; default: --log.file, standard output, or the journal")
    parser.add_argument("--lines", type=int, default=LINES, metavar="N", help=f"lines of the log; default {LINES}")
    flags, rest = parser.parse_known_args(list(arguments))
    if are_for_supernode(rest, os.environ):
        options = read_supernode_options(rest, os.environ)
        run_check = partial(check_supernode, options)
    else:
        options = read_options(rest, os.environ, parser.flags)
        run_check = partial(check, options)
    bundle = Bundle(options, run_check, flags.log, max(1, flags.lines), _directory_of_node(options))
    members = dict(bundle.members())
    try:
        create_private_file(flags.out, _archive(name, members))
    except FileExistsError:
        raise SetupError(f"{flags.out} exists: give another --out") from None
    except OSError as error:
        raise SetupError(f"cannot write {flags.out}: {why_unusable(flags.out, error)} (--out)") from None
    for member, text in members.items():
        print(f"{len(text):>9} {member}")
    for member, reason in bundle.missing.items():
        print(f"        - {member}: {reason}")
    print(f"wrote {flags.out}: secrets are masked; look at it before you send it")
    return ExitCode.OK


class Bundle:
    """What goes into the archive; `missing` says why a part is not there.

    `check` returns the findings; `directory` is the runtime directory of the node, None where there is none."""

    def __init__(
        self,
        options: NodeOptions,
        check: Callable[[], Sequence[Finding]],
        log: str | None,
        lines: int,
        directory: Path | None,
    ) -> None:
        self._given, self._run_check, self._log, self._lines = options, check, log, lines
        self._redactor = Redactor([*secrets_in_options(options.texts), *_secrets_in_files(options)])
        self._directory = directory
        self.missing: dict[str, str] = {}

    def members(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and the content of each part, without secrets."""
        parts: dict[str, Callable[[], bytes | str]] = {
            "options.json": self._options,
            "check.json": self._check,
            "status.json": lambda: self._ask("/status.json"),
            "readyz.json": lambda: self._ask("/readyz"),
            "metrics.txt": self._metrics,
            "processes.json": self._processes,
            "log.txt": lambda: "\n".join(self._log_lines()[-self._lines :]),
            "stimuli.txt": lambda: "\n".join(_stimuli(self._log_lines())),
        }
        for name, read in parts.items():
            try:
                content = read()
            except (SetupError, OSError, http.client.HTTPException) as error:
                reason = f"{error.filename or ''}: {error.strerror}" if isinstance(error, OSError) else str(error)
                self.missing[name] = self._masked(reason or type(error).__name__).decode()
                continue
            if content:
                yield name, self._masked(content)
            else:
                self.missing[name] = "there is none"
        yield "about.json", self._masked(orjson.dumps(_about() | {"missing": self.missing}, option=orjson.OPT_INDENT_2))

    def _masked(self, content: bytes | str) -> bytes:
        text = content if isinstance(content, str) else content.decode(errors="replace")
        return self._redactor.text(text).encode(errors="backslashreplace")

    def _options(self) -> bytes:
        self._require_options()
        try:
            rows, errors = settings_rows(settings(self._given)), self._given.errors
        except OptionError as error:
            rows, errors = {}, (*self._given.errors, *error_lines(error))
        return orjson.dumps({"errors": errors, "options": rows}, option=orjson.OPT_INDENT_2)

    def _check(self) -> bytes:
        self._require_options()
        return findings_json(self._run_check())

    def _require_options(self) -> None:
        if not self._given.texts and not self._given.errors:
            raise SetupError("no options were given")

    def _ask(self, path: str) -> bytes:
        parts = urlsplit((self._running() / RPC_URL).read_text(errors="replace")[:MAX_FILE])
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().read(MAX_ANSWER)
        finally:
            connection.close()

    def _metrics(self) -> bytes:
        files = sorted((self._running() / METRICS).glob("*.prom"))
        return b"".join(b"# file %s\n" % path.name.encode() + _head(path, MAX_ANSWER) for path in files)

    def _processes(self) -> bytes:
        entries = read_processes(self._running())
        return orjson.dumps([{field: getattr(entry, field) for field in entry.__struct_fields__} for entry in entries])

    def _running(self) -> Path:
        if self._directory is None:
            raise SetupError("this user runs no node here, and no --runtime.dir is given")
        return self._directory

    def _log_lines(self) -> list[str]:
        """Return the last lines of the log, more than are wanted. Raises SetupError where it is not known."""
        path = self._log
        with suppress(OptionError):
            path = path or _shared(self._given, "log.file")
        pid = next((entry.pid for entry in self._entries() if entry.role == SUPERVISOR), None)
        if path is None and pid is not None:
            output = Path(f"/proc/{pid}/fd/1")
            with suppress(OSError):
                path = str(output) if stat.S_ISREG(output.stat().st_mode) else None
        if path is not None:
            return _tail(Path(path)).splitlines()
        if pid is not None and (unit := _UNIT.search(Path(f"/proc/{pid}/cgroup").read_text())):
            return _journal(unit[1])
        raise SetupError("the log goes to no file and no journal that this command knows: give its file with --log")

    def _entries(self) -> list[ProcessEntry]:
        return [] if self._directory is None else read_processes(self._directory)


def _shared(options: NodeOptions, name: str) -> str | None:
    """Return the value of an option that is the same for all chains."""
    values: Values = next(iter(options.chains.values()), Values({}))
    path: str | None = values[name]
    return path


def _directory_of_node(options: NodeOptions) -> Path | None:
    with suppress(OptionError):
        if path := _shared(options, "runtime.dir"):
            return Path(path)
    directories = list(own_directories())
    if len(directories) > 1:
        shown = ", ".join(map(str, directories))
        raise SetupError(f"this user runs several nodes here: give the --runtime.dir of one ({shown})")
    return directories[0] if directories else None


def _secrets_in_files(options: NodeOptions) -> Iterator[str]:
    """Yield what the files of secrets have, as far as this user may read them."""
    paths = {text for option, texts in options.texts if option.name in _SECRET_FILES for text in texts}
    for group, values in options.chains.items():
        for name in _SECRET_FILES:
            with suppress(OptionError):
                chain = chain_values(options.own, int(group), values) if group else values
                paths.add(chain[name] or "")
    for path in [DEFAULT_FILE, *map(Path, filter(None, sorted(paths)))]:
        with suppress(OSError, ValueError):
            content = _head(path, MAX_FILE).decode()
            yield from (content, *(line for line in content.splitlines() if len(line) >= 16))


def _head(path: Path, longest: int) -> bytes:
    with regular_file(path) as file:
        return file.read(longest)


def _tail(path: Path) -> str:
    with regular_file(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_LOG))
        text = file.read(MAX_LOG).decode(errors="replace")
    return text if size <= MAX_LOG else text.partition("\n")[2]


def _journal(unit: str) -> list[str]:
    program = shutil.which("journalctl")
    if program is None:
        raise SetupError(f"the log is in the journal of {unit}, and there is no journalctl: give a file with --log")
    command = [program, "-u", unit, "-n", str(MAX_STIMULI), "-o", "cat", "--no-pager"]
    try:
        run = subprocess.run(command, capture_output=True, timeout=SECONDS * 4, check=False)
    except subprocess.TimeoutExpired:
        raise SetupError(f"journalctl does not answer for {unit}") from None
    return run.stdout[-MAX_LOG:].decode(errors="replace").splitlines()


def _stimuli(lines: Sequence[str]) -> list[str]:
    """Return the records with the inputs of the engine core that a bug has written to the log."""
    result: list[str] = []
    taken = False
    for line in lines:
        taken = STIMULI in line if _RECORD.match(line) else taken
        if taken:
            result.append(line)
    return result[-MAX_STIMULI:]


@cache
def _about() -> dict[str, object]:
    system = platform.uname()
    packages = {}
    for requirement in metadata.requires(PROGRAM) or ():
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "program": f"{PROGRAM} {version()}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{system.system} {system.release} {system.machine}, {'-'.join(platform.libc_ver())}",
        "cores": usable_cores(),
        "executable": Path(sys.executable).name,
        "packages": packages,
    }


def _archive(name: str, members: dict[str, bytes]) -> bytes:
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w:gz") as archive:
        for member, content in members.items():
            entry = tarfile.TarInfo(f"{name}/{member}")
            entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return result.getvalue()
