"""Builds the components of a plan for each target."""

from components.provider_sdks import load_on_use

load_on_use("pulumi_consul", "pulumi_nomad")
