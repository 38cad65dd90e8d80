"""Constructs the policy pack of Slipway environments (docs/policies.md), and does nothing else."""

import sys

from pulumi_pack import pack_policies
from pulumi_policy import PolicyPack
from waivers import InputError

try:
    policies = pack_policies()
except InputError as mistake:
    sys.exit(f"policies/{mistake}")
PolicyPack(name="slipway", policies=[*policies])
