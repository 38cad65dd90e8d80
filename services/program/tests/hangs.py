"""The limit of waits in tests: it ends a hang, and is never what a test claims."""

HANG_S = 300
