"""This machine: what it must have, who listens where, code copied for its nodes."""
