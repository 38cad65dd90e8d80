"""What a command is doing now: one block on a terminal, and few lines in a log."""
