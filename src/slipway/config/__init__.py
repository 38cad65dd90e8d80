"""The user's files, parsed once into frozen values; all mistakes are reported together."""
