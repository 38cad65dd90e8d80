"""The parts of a running platform, asked and told what a command needs."""
