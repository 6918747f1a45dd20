"""A node of toy stages for tests of the supervisor: `python -m tests.support.processes.toy_node FOLDER SETTINGS`.

Its processes are `left`, `right` and two copies of `copy`; with `chains`, a `right` and a `copy` for each of these."""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rollup_node.node.supervisor import chain_group, supervisor
from rollup_node.node.supervisor.settings import NodeSettings, Reload
from rollup_node.node.supervisor.supervisor import run_node
from rollup_node.node.supervisor.watchdog import RestartPolicy
from rollup_node.node.system.exit_codes import RESTART, SetupError
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.node.system.process_table import ProcessSpec
from rollup_node.node.system.profiling import ProfilingSettings
from rollup_node.node.system.runtime_dir import runtime_path
from rollup_node.stages.io.log.logger import Level
from tests.support.foreign_user import FOREIGN_USER
from tests.support.processes.denied_calls import adopt_orphans, deny
from tests.support.processes.toy_stages import CHANNELS, ToyConfig

BUILD = "tests.support.processes.toy_stages:build"
RESTART_POLICY = {"cpu": 1.0, "blocked": 1.5, "stopped": 0.7, "stop_total": 40.0}


def main(words: Sequence[str]) -> int:
    """Run the toy node with the given settings."""
    folder, text = words
    result: dict[str, Any] = json.loads(text)
    specs = _specs(folder, result)
    for name, seconds in result.get("pauses", {}).items():
        setattr(supervisor if hasattr(supervisor, name) else chain_group, name, seconds)
    if "job" in result:
        output = os.dup(1)
        config = ToyConfig("job", folder, output=output, code=result["job"])
        specs.append(ProcessSpec("job", BUILD, config, one_shot=True, keep_fds=(output,)))
    kind, path = result.get("profile", (None, ""))
    settings = NodeSettings(
        version="toy",
        log=LogSettings(Level.DEBUG, result.get("format", "json")),
        runtime_dir=runtime_path(result.get("runtime_dir")),
        precheck=partial(_precheck, folder, result) if "precheck" in result else None,
        channels=CHANNELS,
        log_output=2 if "job" in result else 1,
        halt_seconds=result.get("halt_seconds", 0.0),
        profiling=ProfilingSettings(kind=kind, path=Path(path)),
        reload=partial(_reload, folder) if result.get("reload") else None,
        renew_chain=partial(_renew_chain, folder),
        restart_policy=RestartPolicy(**RESTART_POLICY | result.get("restart_policy", {})),
    )
    if result.get("adopts"):
        adopt_orphans()
    if denied := result.get("denied"):
        deny({int(call): error for call, error in denied.items()})
    if "tasks" in result:
        resource.setrlimit(resource.RLIMIT_NPROC, (result["tasks"], result["tasks"]))
        os.setuid(FOREIGN_USER)
    code = run_node(specs, settings)
    if code == RESTART and result.get("again"):
        (Path(folder) / "between").touch()
        time.sleep(0.3)
        return run_node(specs, settings)
    return code


def _specs(folder: str, result: dict[str, Any]) -> list[ProcessSpec]:
    def spec(role: str, copies: int = 1, chain: str = "") -> ProcessSpec:
        name = f"{role}.{chain}" if chain else role
        return ProcessSpec(
            role,
            result.get("build", BUILD),
            ToyConfig(name, folder, refuse_to_stop=name in result.get("refuse_to_stop", ())),
            copies,
            numbered=copies > 1,
            stop_timeout=result.get("stop_timeout", {}).get(role, 30.0),
            outlives_halt=role == result.get("outlives_halt"),
            group=chain,
        )

    if chains := result.get("chains"):
        return [spec("left"), *(spec(role, chain=chain) for role in ("right", "copy") for chain in chains)]
    return [spec("left"), spec("right"), spec("copy", copies=2)]


async def _precheck(folder: str, result: dict[str, Any]) -> None:
    (Path(folder) / "prechecks").touch()
    await asyncio.sleep(result.get("precheck_seconds", 0))
    if result.get("precheck") == "bug":
        raise ValueError("a bug in the precheck")
    if result.get("precheck"):
        raise SetupError(result["precheck"])


def _reload(folder: str) -> Reload:
    """Take over what the file `options` in the folder says."""
    options: dict[str, Any] = json.loads((Path(folder) / "options").read_text())
    if "error" in options:
        raise SetupError(options["error"])

    async def check() -> None:
        await asyncio.sleep(options.get("check_seconds", 0))
        if options["check"]:
            raise SetupError(options["check"])

    def commit() -> None:
        if "commit" in options:
            raise SetupError(options["commit"])

    return Reload(
        configs={
            (name.partition(".")[0], name.partition(".")[2]): ToyConfig(name, folder, code=code)
            for name, code in options.get("codes", {}).items()
        },
        level=Level(options["level"]) if "level" in options else None,
        changed=tuple(options.get("codes", ())),
        need_restart=tuple(options.get("need_restart", ())),
        check=check if "check" in options else None,
        commit=commit,
    )


def _renew_chain(folder: str, group: str) -> dict[str, object]:
    """Return the configurations of a chain with the code in the file `renewed`."""
    renewed = Path(folder) / "renewed"
    if not renewed.exists():
        raise SetupError(f"chain {group} has no file")
    return {role: ToyConfig(f"{role}.{group}", folder, code=int(renewed.read_text())) for role in ("right", "copy")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
