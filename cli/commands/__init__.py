"""One module for each command of `slipway`: its options, and what it does in which order."""
