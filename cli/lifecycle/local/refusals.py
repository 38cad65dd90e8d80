"""Refusals of operations on hosts where these are processes of this machine, and what to do
instead."""

from __future__ import annotations

from cli.errors import WRONG_INPUT, CliError


def is_this_machine(environment: str, host: str, instead: str, effect: str) -> CliError:
    return CliError(
        f'{host}: the hosts of "{environment}" are processes of this machine',
        fix=f"{instead} -s {environment} {effect}",
        exit_code=WRONG_INPUT,
    )


def takes_no_snapshots(environment: str) -> CliError:
    return CliError(
        f'"{environment}" has no snapshots: its servers and everything else are processes of this'
        " machine, and are lost together",
        fix=f"slipway start -s {environment} brings back what has died; slipway down, then"
        " slipway up builds it anew",
        exit_code=WRONG_INPUT,
    )


def is_within_reach(environment: str) -> CliError:
    return CliError(
        f'"{environment}" runs on this machine, so every program here reaches it',
        fix=f'eval "$(slipway env -s {environment})"; slipway status -s {environment} shows its'
        " addresses",
        exit_code=WRONG_INPUT,
    )
