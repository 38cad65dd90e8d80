"""Replacement of the nodes of an elastic pool after its template has changed."""
