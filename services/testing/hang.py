"""When a test gives up. A deadline is never what a test claims: it ends one that hangs."""

HANG_S = 300.0
