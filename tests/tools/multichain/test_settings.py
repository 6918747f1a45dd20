"""The flags of a local network of several chains."""

import pytest

from rollup_node.tools.devnet.fork_offsets import SettingsError
from rollup_node.tools.multichain.settings import parse


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--chains=0"], "--chains 0: expected 1 to 8"),
        (["--chains=9"], "--chains 9: expected 1 to 8"),
        (["--chains=2", "--supernodes=5"], "--supernodes 5: expected 1 to 4"),
        (["--chains=2", "--l1-block-time=0"], "--l1-block-time 0: expected 1 to 60 seconds"),
        (["--chains=2", "--l2-block-time=61"], "--l2-block-time 61: expected 1 to 60 seconds"),
        (["--chains=2", "--invalid=3"], "--invalid: it needs --interop"),
        (["--chains=2", "--lie=3"], "--lie: it needs --interop"),
        (["--chains=2", "--interop", "--wrong=cycle"], "--wrong: it needs --invalid"),
        (["--chains=2", "--interop", "--invalid=2", "--wrong=expired"], "--wrong expired: it needs --expiry"),
        (["--chains=2", "--fork=nope=1"], "nope"),
    ],
)
def test_wrong_flags(flags: list[str], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        parse(flags)
