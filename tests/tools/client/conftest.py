"""The rpc stage for the client's tests."""

from tests.stages.rpc.conftest import with_rpc

__all__ = ["with_rpc"]
