"""The plan: frozen values that say what a platform is, with no opinion on how they were chosen."""
