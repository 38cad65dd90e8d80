"""Whether a replica's engine moves: told by its steps, judged by a process beside it."""
