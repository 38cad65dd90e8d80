"""Sources of routes and endpoints."""
