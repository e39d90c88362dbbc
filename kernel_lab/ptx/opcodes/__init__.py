"""One table of opcodes, by family. An opcode is one entry: what it accepts, what it does to lanes, where the manual says so."""
