"""Where people sit: the `assay` command line. No core of its own."""
