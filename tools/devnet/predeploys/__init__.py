"""The development chain's own L2 contracts: the Solidity source, the compiler's exact input (`compile.json`, with the
source file put in for its URL), and the deployed bytecode that came out, one `.hex` file a contract. `alloc` puts them
into a genesis; nothing is compiled when the project is used."""
