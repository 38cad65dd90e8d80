"""Addresses of agents and services: only this module puts a scheme before a host."""

from __future__ import annotations

from urllib.parse import urlsplit


def url(scheme: str, authority: str) -> str:
    """ "http://127.77.0.1:8500", without a path"""
    return f"{scheme}://{authority}"


def beside(address: str, authority: str) -> str:
    """Another host's address, spoken to as `address` is: what a document says of one host of the
    platform holds for all."""
    return url(urlsplit(address).scheme, authority)
