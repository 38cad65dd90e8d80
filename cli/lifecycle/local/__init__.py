"""dev: the platform runs as processes of this machine, and its state is in the checkout."""
