"""Writes the built-in networks from a checkout of the superchain registry.

    python -m rollup_node.tools.importers.registry CHECKOUT --commit HASH --date YYYY-MM-DD [--out FILE]

The checkout has `configs/<superchain>/<chain>.toml`, and former members under `configs_removed`. A chain's own file has
all its fork times, including those inherited from its superchain. Addresses of public servers are not copied. Commit
and date are those of the checkout: a node says at its start when they are old [LFT8].
"""

import argparse
import json
import sys
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

FOLDERS = ("configs", "configs_removed")
SUPERCHAIN_FILE = "superchain.toml"
SEPOLIA = 11_155_111
FORMER_SUPERCHAINS = {"rehearsal-0-bn": SEPOLIA, "sepolia-dev-0": SEPOLIA}
"""L1 chain ids of superchains whose `superchain.toml` the registry no longer has."""

NETWORKS_FILE = Path(__file__).resolve().parents[2] / "node" / "setup" / "networks.json"


def main(arguments: list[str] | None = None) -> int:
    """Writes the file and prints how many networks it has; 1 for a checkout that cannot be read."""
    parser = argparse.ArgumentParser(description="Writes the built-in networks from a superchain registry checkout.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--commit", required=True, help="the commit of the checkout")
    parser.add_argument("--date", type=date.fromisoformat, required=True, help="its date")
    parser.add_argument("--out", type=Path, default=NETWORKS_FILE)
    options = parser.parse_args(arguments)
    try:
        networks = read_registry(options.checkout)
    except (OSError, KeyError, ValueError) as error:
        print(f"error: cannot read {options.checkout} as a superchain registry: {error}", file=sys.stderr)
        return 1
    options.out.write_text(networks_text(networks, options.commit, options.date))
    print(f"{len(networks)} networks written to {options.out}")
    return 0


def read_registry(checkout: Path) -> dict[str, dict[str, Any]]:
    """Every chain of a checkout by network name, as networks.json has it.

    Raises OSError, KeyError or ValueError for a checkout that is no registry."""
    root = checkout / "superchain" if (checkout / "superchain").is_dir() else checkout
    l1_ids = FORMER_SUPERCHAINS | {
        file.parent.name: tomllib.loads(file.read_text())["l1"]["chain_id"]
        for file in root.glob(f"configs/*/{SUPERCHAIN_FILE}")
    }
    files = [file for folder in FOLDERS for file in root.glob(f"{folder}/*/*.toml") if file.name != SUPERCHAIN_FILE]
    if not files:
        raise ValueError("no chain files found")
    networks = {
        f"{file.stem}-{file.parent.name}": network_entry(tomllib.loads(file.read_text()), l1_ids[file.parent.name])
        for file in files
    }
    return dict(sorted(networks.items()))


def network_entry(chain: dict[str, Any], l1_chain_id: int) -> dict[str, Any]:
    """One chain file as an entry of networks.json; optional keys only where the chain has them."""
    times = dict(chain["hardforks"])
    genesis, constants, addresses = chain["genesis"], chain["optimism"], chain["addresses"]
    system = genesis["system_config"]
    entry: dict[str, Any] = {
        "title": chain["name"],
        "chain_ids": [l1_chain_id, chain["chain_id"]],
        "timing": [chain["block_time"], chain["seq_window_size"], chain["max_sequencer_drift"]],
        "genesis_l1": [genesis["l1"]["number"], genesis["l1"]["hash"]],
        "genesis_l2": [genesis["l2"]["number"], genesis["l2"]["hash"], genesis["l2_time"]],
        "system_config": [system["batcherAddress"], system["overhead"], system["scalar"], system["gasLimit"]],
        "batch_inbox": chain["batch_inbox_addr"],
        "deposit_contract": addresses["OptimismPortalProxy"],
        "l1_system_config": addresses["SystemConfigProxy"],
        "eip1559": [constants[f"eip1559_{name}"] for name in ("elasticity", "denominator", "denominator_canyon")],
    }
    if times.pop("keep_karst_upgrade_gas", False):
        entry["keep_karst_upgrade_gas"] = True
    if (pectra := times.pop("pectra_blob_schedule_time", None)) is not None:
        entry["pectra_blob_schedule_time"] = pectra
    if "alt_da" in chain:
        names = ("challenge_contract_address", "commitment_type", "challenge_window", "resolve_window")
        entry["alt_da"] = [chain["alt_da"][f"da_{name}"] for name in names]
    if "interop" in chain:
        entry["dependencies"] = sorted(int(dependency) for dependency in chain["interop"]["dependencies"])
    entry["forks"] = {name.removesuffix("_time"): time for name, time in times.items()}
    return entry


def networks_text(networks: dict[str, dict[str, Any]], commit: str, day: date) -> str:
    """The text of networks.json with one line per value."""
    blocks = (
        f"{json.dumps(name)}: {{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(entry[key])}" for key in entry)
        for name, entry in networks.items()
    )
    registry = json.dumps({"commit": commit, "date": day.isoformat()})
    return f'{{"registry": {registry},\n"networks": {{\n' + "\n},\n".join(blocks) + "\n}\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
