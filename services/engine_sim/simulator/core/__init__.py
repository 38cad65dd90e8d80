"""The simulation itself: no clock, no input or output, the same result on every run."""
