"""Decides what a platform looks like: (configuration, catalog) -> PlatformPlan, without side
effects."""
