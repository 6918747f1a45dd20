"""Writes the built-in networks from a checkout of the superchain registry and registry_additions.toml.

    python -m rollup_node.tools.importers.registry CHECKOUT --commit HASH --date YYYY-MM-DD [--out FILE]

The checkout has `configs/<superchain>/<chain>.toml`, and former members under `configs_removed`. A chain's own file has
all its fork times, including those inherited from its superchain. Addresses of public servers are not copied. Commit
and date are those of the checkout. The additions are what was published since; a network keeps date and source of each
that it has. An addition that the registry contradicts is an error, and so is a dependency set that its members do not
share [OPT22, OPT81].
"""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

REMOVED_FOLDER = "configs_removed"
FOLDERS = ("configs", REMOVED_FOLDER)
SUPERCHAIN_FILE = "superchain.toml"
SEPOLIA = 11_155_111
FORMER_SUPERCHAINS = {"rehearsal-0-bn": SEPOLIA, "sepolia-dev-0": SEPOLIA}
"""L1 chain ids of superchains whose `superchain.toml` the registry no longer has."""

OLD_FORKS = {"interop": "lagoon"}
"""Names of forks in older files [CFG30]."""

NETWORKS_FILE = Path(__file__).resolve().parents[2] / "node" / "setup" / "networks.json"
ADDITIONS_FILE = Path(__file__).with_name("registry_additions.toml")

Networks = dict[str, dict[str, Any]]


def main(arguments: list[str] | None = None) -> int:
    """Write the file and print how many networks it has; 1 for a checkout or additions that cannot be used."""
    parser = argparse.ArgumentParser(description="Writes the built-in networks from a superchain registry checkout.")
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--commit", required=True, help="the commit of the checkout")
    parser.add_argument("--date", type=date.fromisoformat, required=True, help="its date")
    parser.add_argument("--out", type=Path, default=NETWORKS_FILE)
    parser.add_argument("--additions", type=Path, default=ADDITIONS_FILE, help="facts newer than the checkout")
    options = parser.parse_args(arguments)
    try:
        networks = read_registry(options.checkout)
    except (OSError, KeyError, ValueError) as error:
        print(f"error: cannot read {options.checkout} as a superchain registry: {error}", file=sys.stderr)
        return 1
    try:
        text = networks_text(networks, options.commit, options.date, read_additions(options.additions))
    except (OSError, KeyError, ValueError) as error:
        print(f"error: {options.additions} does not fit {options.checkout}: {error}", file=sys.stderr)
        return 1
    options.out.write_text(text)
    print(f"{len(json.loads(text)['networks'])} networks written to {options.out}")
    return 0


def read_registry(checkout: Path) -> Networks:
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
    return {f"{file.stem}-{file.parent.name}": _file_entry(file, l1_ids[file.parent.name]) for file in files}


def _file_entry(file: Path, l1_chain_id: int) -> dict[str, Any]:
    entry = network_entry(tomllib.loads(file.read_text()), l1_chain_id)
    if file.parent.parent.name == REMOVED_FOLDER:
        entry["removed"] = "the superchain registry"
    return entry


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
    forks = {name.removesuffix("_time"): time for name, time in times.items()}
    entry["forks"] = {OLD_FORKS.get(name, name): time for name, time in forks.items()}
    return entry


# --- additions -------------------------------------------------------------------------------------------------------


def read_additions(file: Path) -> dict[str, Any]:
    """Return the additions of a TOML file: `checked`, `renamed`, `not_carried`, and `additions`.

    Raises OSError or ValueError for a file that cannot be read."""
    return tomllib.loads(file.read_text())


def add(networks: Networks, additions: dict[str, Any]) -> None:
    """Add to the entries what the additions say.

    Raises KeyError or ValueError for an addition that is incomplete, or says something else than the registry."""
    for addition in additions["additions"]:
        facts = dict(addition)
        day, source, names = facts.pop("date"), facts.pop("source"), facts.pop("networks")
        for name in names:
            is_whole = "title" in facts
            if is_whole is (name in networks):
                has = "has" if is_whole else "does not have"
                raise ValueError(f"the registry {has} {name}, to which an addition of {day} belongs")
            entry = networks.setdefault(name, {})
            changes = [_set(name, target, key, value) for target, key, value in _facts(entry, facts)]
            entry.setdefault("additions", []).append([day.isoformat(), source, *(["all"] if is_whole else changes)])


def _facts(entry: dict[str, Any], facts: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, Any]]:
    for key, value in facts.items():
        if key == "forks":
            yield from ((entry.setdefault(key, {}), fork, time) for fork, time in value.items())
        else:
            yield entry, key, value


def _set(name: str, target: dict[str, Any], key: str, value: Any) -> str:
    if key in target:
        raise ValueError(f"the registry has {key} {target[key]} for {name}, an addition {value}: delete the addition")
    target[key] = value
    return key


def check_dependencies(networks: Networks) -> None:
    """Raise ValueError for a dependency set that is not usable [OPT81].

    It lacks its own chain, names a chain without a network, or has a member with another set or another Lagoon time."""
    by_id = {entry["chain_ids"][1]: (name, entry) for name, entry in networks.items()}
    for name, entry in networks.items():
        chains = entry.get("dependencies", [entry["chain_ids"][1]])
        if entry["chain_ids"][1] not in chains:
            raise ValueError(f"the dependency set of {name} does not have its own chain: {chains}")
        for chain in chains:
            if chain not in by_id:
                raise ValueError(f"the dependency set of {name} has chain {chain}, which is no network")
            other, member = by_id[chain]
            if member.get("dependencies", [chain]) != chains:
                raise ValueError(f"{name} and {other} have different dependency sets")
            if member["forks"].get("lagoon") != entry["forks"].get("lagoon"):
                raise ValueError(f"{name} and {other} are of one dependency set and have different Lagoon times")


# --- output ----------------------------------------------------------------------------------------------------------


def networks_text(networks: Networks, commit: str, day: date, additions: dict[str, Any]) -> str:
    """Return the text of networks.json with one line per value; the additions are made to `networks`.

    Raises KeyError or ValueError for additions that do not fit."""
    add(networks, additions)
    check_dependencies(networks)
    blocks = (
        f"{json.dumps(name)}: {{\n" + ",\n".join(f"  {json.dumps(key)}: {json.dumps(entry[key])}" for key in entry)
        for name, entry in sorted(networks.items())
    )
    registry = {"commit": commit, "date": day.isoformat(), "checked": additions["checked"].isoformat()}
    heads = {"registry": registry, "renamed": additions["renamed"], "not_carried": additions["not_carried"]}
    head = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in heads.items())
    return f"{{{head}" + '"networks": {\n' + "\n},\n".join(blocks) + "\n}\n}}\n"


if __name__ == "__main__":
    sys.exit(main())
