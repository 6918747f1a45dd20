"""The predeploys of the development chain.

Solidity source, compiler input (`compile.json`, with the source in place of its URL), and the deployed bytecode, one
`.hex` file per contract. `alloc` puts them into a genesis; nothing is compiled at run time."""
