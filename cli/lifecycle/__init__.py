"""What `up`, `start`, `stop` and `down` mean for the environments of each target."""
