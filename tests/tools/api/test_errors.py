"""Errors of the node's commands become errors of one family, with the names of arguments instead of flags."""

import pytest

import rollup_node
from rollup_node.node.options.errors import WrongOptions
from rollup_node.node.system.exit_codes import SetupError
from rollup_node.stages.messages.codes import Code
from rollup_node.tools.api.errors import Error, input_errors, with_arguments


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("give --l1.beacon, or --l1.beacon.ignore", "give beacon, or options['l1.beacon.ignore']"),
        ("--from-l2 5 is not after", "from_l2 5 is not after"),
        ("no --- flag, a -- b", "no --- flag, a -- b"),
    ],
)
def test_flags_are_named_as_arguments(text: str, shown: str) -> None:
    assert with_arguments(text) == shown


def test_a_finding_keeps_its_code_and_no_login_is_shown() -> None:
    with pytest.raises(rollup_node.EndpointError) as caught, input_errors(rollup_node.EndpointError):
        raise SetupError("--l1: http://user:secret@host answers nothing", Code.L1_UNREACHABLE)
    assert (caught.value.code, "secret" in str(caught.value)) == ("L1-UNREACHABLE", False)
    with pytest.raises(Error, match="one; two") as several, input_errors():
        raise WrongOptions(["one", "two"])
    assert (several.value.code, several.value.__cause__) == ("INPUT", None)
