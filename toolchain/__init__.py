"""Pinned tools and Python environments, and every way of getting them on this machine.

Start at `resolve.tools` (binaries), `environments.ensure_environment` (Python) and
`prepare.prepare` (both, in parallel). This package imports nothing from Slipway; the modules that
the root script needs before any environment exists use the standard library only.
"""
