"""How the operator's machine reaches what runs in an environment's private network: through SSH."""
