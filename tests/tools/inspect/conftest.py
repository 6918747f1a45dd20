"""The recorded OP Sepolia data as derivation reads them."""

from tests.stages.derivation.conftest import recording

__all__ = ["recording"]
