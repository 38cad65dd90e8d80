"""Units of memory."""

MIB = 2**20
GIB = 2**30
