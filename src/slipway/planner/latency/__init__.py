"""How long a replica takes: kernels, forward passes, the queue, what was measured instead."""
