"""What the platform shows to everyone who may connect: the public keys of workload identities."""
