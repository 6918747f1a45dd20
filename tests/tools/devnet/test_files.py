"""The files of a local network."""

import json
from pathlib import Path

from rollup_node.stages.protocol.l1_chains import parse_l1_chain
from rollup_node.tools.devnet.files import (
    L1_CHAIN_ID,
    NetworkFiles,
    l1_genesis,
    write_secrets,
)
from rollup_node.tools.devnet.l1.backend import L1Backend


def test_secrets_are_private_and_kept(tmp_path: Path) -> None:
    files = NetworkFiles(tmp_path)
    write_secrets(files, ("sequencer", "verifier"))
    paths = [files.jwt, files.batcher_key, files.peer_key("sequencer"), files.peer_key("verifier")]
    contents = [path.read_text() for path in paths]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in paths)
    assert all(len(text.strip()) == 64 for text in contents) and len(set(contents)) == 4
    write_secrets(files, ("sequencer", "verifier", "verifier-2"))
    assert [path.read_text() for path in paths] == contents
    assert files.peer_key("verifier-2").exists()


def test_late_forks_of_l1() -> None:
    """Those at genesis have the time 0; Osaka has the blobs of Prague, and Amsterdam none of its own [LIN28, LIN32]."""
    genesis = l1_genesis(1000, {"osaka": 0, "bpo1": 0, "bpo2": 6, "amsterdam": 20})
    config = genesis["config"]
    assert [config[f"{fork}Time"] for fork in ("osaka", "bpo1", "bpo2", "amsterdam")] == [0, 0, 1006, 1020]
    chain = parse_l1_chain(json.dumps(config).encode(), L1_CHAIN_ID)
    names = ("cancun", "prague", "osaka", "bpo1")
    assert [(fork.name, fork.time) for fork in chain.blob_forks] == [*((name, 0) for name in names), ("bpo2", 1006)]
    backend = L1Backend(genesis, 2)
    for time in (1000, 1005, 1006, 1020):
        blobs = backend.evm_rules(time).blobs
        assert blobs is not None and blobs.update_fraction == chain.update_fraction(time)
