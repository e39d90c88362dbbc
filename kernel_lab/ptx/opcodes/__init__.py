"""One table of opcodes, by family: what an entry accepts, what it does to lanes, where the manual says so."""
