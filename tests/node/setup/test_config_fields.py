"""The path from an option to the field that it sets."""

import msgspec
import pytest

from rollup_node.node.options.option import AnyOption, Option
from rollup_node.node.options.table import OPTIONS
from rollup_node.node.options.value_types import COUNT, TEXT
from rollup_node.node.options.values import GivenTexts, Values
from rollup_node.node.setup.config_fields import ConfigFieldError, build_config, field_options, filled_config
from rollup_node.node.setup.networks import find_network
from rollup_node.node.system.log_formats import LogSettings
from rollup_node.stages.blobs.config import BlobsConfig
from rollup_node.stages.io.log import Level

ROLLUP = find_network("op-sepolia").config


class DoorConfig(msgspec.Struct, frozen=True):
    """A configuration of the test."""

    width: int
    material: str
    colour: str = "red"


WIDTH = Option(name="width", value_type=COUNT, default="1", variable="WIDTH", help="Width.", field=DoorConfig.width)
COLOUR = Option(name="colour", value_type=TEXT, default=None, variable="COL", help="Colour.", field=DoorConfig.colour)


def fill(options: tuple[AnyOption, ...], values: dict[str, object], **computed: object) -> DoorConfig:
    return filled_config(DoorConfig, field_options(options), values, computed)


def test_options_and_computed_values_fill_a_configuration() -> None:
    assert fill((WIDTH,), {"width": 2}, material="oak") == DoorConfig(2, "oak", "red")
    assert fill((WIDTH, COLOUR), {"width": 2, "colour": "blue"}, material="oak") == DoorConfig(2, "oak", "blue")


@pytest.mark.parametrize(
    ("values", "computed", "error"),
    [
        ({"width": 2}, {}, "DoorConfig lacks material: neither an option nor the caller sets it"),
        ({"width": 2}, {"material": "oak", "size": 3}, "DoorConfig has no field size"),
        ({"width": 2}, {"material": "oak", "width": 3}, "DoorConfig.width is computed and set by option width"),
        ({"width": "wide"}, {"material": "oak"}, r"DoorConfig.width cannot be 'wide' \(option width\): Expected `int`"),
        ({"width": None}, {"material": "oak"}, r"DoorConfig.width cannot be None \(option width\): Expected `int`"),
        ({"width": 2}, {"material": 5}, "DoorConfig.material cannot be 5: Expected `str`"),
    ],
)
def test_contradictions_are_named(values: dict[str, object], computed: dict[str, object], error: str) -> None:
    with pytest.raises(ConfigFieldError, match=error):
        fill((WIDTH,), values, **computed)


def test_a_field_has_one_option() -> None:
    other = Option(name="size", value_type=COUNT, default="1", variable="S", help="Size.", field=DoorConfig.width)
    with pytest.raises(ConfigFieldError, match=r"DoorConfig\.width is set by width and by size"):
        field_options((WIDTH, other))


def test_the_option_table_sets_each_field_once() -> None:
    by_class = field_options(OPTIONS.values())
    assert {config.__name__ for config in by_class} == {
        *("L1Config", "BlobsConfig", "DerivationConfig", "EngineConfig", "P2pConfig", "SignerConfig", "RpcConfig"),
        "LogSettings",
    }
    assert sum(map(len, by_class.values())) == sum(option.field is not None for option in OPTIONS.values())


def test_configurations_are_built_from_the_option_table() -> None:
    values = Values({"log.level": GivenTexts(("debug",), "", True), "l1.beacon": GivenTexts(("http://b",), "", True)})
    assert build_config(LogSettings, values) == LogSettings(level=Level.DEBUG)
    blobs = build_config(BlobsConfig, values, rollup=ROLLUP, timeout=5.0)
    assert (blobs.beacon, blobs.fallbacks, blobs.header, blobs.timeout) == ("http://b", (), None, 5.0)
