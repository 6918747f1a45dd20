"""The rpc process, its HTTP servers and its clients of other processes."""
