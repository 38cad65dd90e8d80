"""The check of hosts before they take members of groups."""
