"""What each pool offers: from this machine, from a cloud's catalog, or from owned machines."""
