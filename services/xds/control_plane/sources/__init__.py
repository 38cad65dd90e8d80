"""Where routes and endpoints come from."""
