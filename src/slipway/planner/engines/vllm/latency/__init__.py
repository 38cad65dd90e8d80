"""Request times of a replica, from kernels, forward passes and the queue, or from measurements."""
