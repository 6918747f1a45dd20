"""The commands of docs/day-two.md, in their order, with a real node on a local chain."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.chains.local_chain import LocalChain
from tests.support.processes.leftovers import Leftovers
from tests.support.servers.loopback import free_port, own_address

PAGE = (Path(__file__).parents[1] / "docs" / "day-two.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
(OPTIONS,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PROGRAMS = ("bash", "curl", "openssl")
URL = "http://127.0.0.1:9545"
READY = f"until curl -sf {URL}/readyz > /dev/null; do sleep 0.1; done\n"
RELOADED = "until grep -q 'changed=log.level' node.log; do sleep 0.1; done\n"


def local_options(chain: LocalChain, port: int) -> str:
    """Return the options of the page with the endpoints of a local chain, on ports that are free."""
    urls = {"8545": chain.l1, "5052": chain.beacon, "8551": chain.engine}
    text = re.sub(r"http://127\.0\.0\.1:(\d+)", lambda match: urls[match[1]], OPTIONS)
    files = {"rollup.config": chain.files.rollup, "rollup.l1-chain-config": chain.files.l1_chain}
    lines = [f'"{name}" = "{path}"' for name, path in files.items()]
    lines += [f'"rpc.port" = {port}', '"p2p.listen.ip" = "127.0.0.1"', '"p2p.listen.tcp" = 0']
    lines += ['"p2p.no-discovery" = true', '"l1.http-poll-interval" = "200ms"', '"workers" = 1']
    text = text.replace('"rpc.addr" = "127.0.0.1"', f'"rpc.addr" = "{own_address()}"')
    return text.replace('network = "op-sepolia"\n', "") + "\n".join(lines) + "\n"


def test_the_steps_of_an_operator(leftovers: Leftovers) -> None:
    for program in PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    folder, port = leftovers.folder, free_port()
    with LocalChain(leftovers) as chain:
        (folder / "node.toml").write_text(local_options(chain, port))
        secrets, start, *others = BLOCKS
        secrets += f"cp {chain.files.jwt} credentials/l2.jwt-secret\n"
        script = [f'rollup-node() {{ {sys.executable} -m rollup_node "$@"; }}', "set -eu", secrets, start, READY]
        for block in others:
            if block.startswith("kill -HUP"):
                script += ["""sed -i '1i "log.level" = "debug"' node.toml""", block, RELOADED]
            else:
                script += [block, READY if block.rstrip().endswith("&") else ""]
        script += ["kill $(cat run/lock)", "wait"]
        text = "\n".join(script).replace("rollup-node status", f"rollup-node status --rpc={URL}")
        done = subprocess.run(
            ["bash", "-c", text.replace(URL, f"http://{own_address()}:{port}")],
            cwd=folder,
            env=leftovers.environment(http_proxy=""),
            capture_output=True,
            text=True,
            timeout=55,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    assert '{"jsonrpc":"2.0","id":1,"result":{"changed":[],"restarted":[],"needRestart":[]}}' in done.stdout
    assert "ready   " in done.stdout and "wrote report.tar.gz" in done.stdout
    log = (folder / "node.log").read_text()
    peers = re.findall(r'"listening for peers" .*peer=(\w+)', log)
    assert len(peers) == 2 and peers[0] == peers[1]
    assert log.count('"node stopped" exit_code=0') == 2
    assert "lvl=debug" in log and "RELOAD" not in log
