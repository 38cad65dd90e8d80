"""Addresses of agents and services: only this module puts a scheme before a host."""

from __future__ import annotations

from urllib.parse import urlsplit


def url(scheme: str, authority: str) -> str:
    """ "http://127.77.0.1:8500", without a path"""
    return f"{scheme}://{authority}"


def beside(address: str, authority: str) -> str:
    """The URL of `authority` (host:port) with the scheme of `address`, which all hosts of the
    platform share."""
    return url(urlsplit(address).scheme, authority)
