"""Which hosts of a pool may take members of groups, by what was found on all of them."""
