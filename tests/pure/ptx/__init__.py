"""The PTX executor: parser, opcodes, interpreter, checkers."""
