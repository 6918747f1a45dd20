"""The rpc stage for the client's tests."""

from tests.stages.rpc.conftest import running_rpc

__all__ = ["running_rpc"]
