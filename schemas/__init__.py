"""The language of Assay: ids, enums, the goal file, one frozen class per fact, and their envelope."""
