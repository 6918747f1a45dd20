"""What an option sets."""

import pytest

from rollup_node.node.options.option import Option, Section
from rollup_node.node.options.value_types import COUNT, TEXT
from rollup_node.stages.l1.config import L1Config


def option(field: int | None = None, *old_names: tuple[str, str]) -> Option[int]:
    return Option(
        name="a.b", value_type=COUNT, default="1", variable="NODE_A", help="A.", field=field, old_names=old_names
    )


def test_the_field_of_an_option_is_that_of_a_class() -> None:
    assert option(L1Config.cache_size).config_field == (L1Config, "cache_size")
    assert option().config_field is None


@pytest.mark.parametrize("field", [5, L1Config.__init__])
def test_only_a_field_of_a_struct_can_be_set(field: int) -> None:
    with pytest.raises(TypeError, match=r"option a\.b sets .* which is no field of a Struct"):
        option(field)


def test_the_type_of_the_field_is_checked_statically() -> None:
    """mypy reports both rows; without their errors it would report the comments as unused."""
    Section(
        "wrong type",
        Option(name="a", value_type=TEXT, default=None, variable="A", help="A.", field=L1Config.cache_size),  # type: ignore[misc]
    )
    with pytest.raises(AttributeError, match="cache_sise"):
        Option(name="a", value_type=TEXT, default=None, variable="A", help="A.", field=L1Config.cache_sise)  # type: ignore[attr-defined]
