"""Decides what a platform looks like: (configuration, catalog) -> PlatformPlan, without effects."""
