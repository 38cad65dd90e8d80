"""The platform job that introduces new nodes of elastic pools."""
