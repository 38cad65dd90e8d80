"""The fixed hosts of an environment on AWS: instances that are then reached over SSH."""
