"""The plan: frozen values that describe a platform; nothing here says how they were chosen."""
