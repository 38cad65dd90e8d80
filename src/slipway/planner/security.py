"""The authorities that all parts of a platform trust, and how long their certificates last."""

from __future__ import annotations

from collections.abc import Iterator

from slipway.config.security import OwnAuthority
from slipway.inputs import PlanInputs
from slipway.plan.platform import OwnAuthorityPlan, SecurityPlan

# A certificate lasts for the longest of these that its authority has left. It must not last exactly
# as many days as are left, or every update would replace every certificate.
LEAF_VALID_DAYS = (365, 180, 120)


def plan_security(inputs: PlanInputs) -> SecurityPlan:
    settings = inputs.environment.settings.security
    return SecurityPlan(
        authorities=tuple(
            _own(inputs, index) if isinstance(each, OwnAuthority) else each
            for index, each in enumerate(settings.authorities)
        ),
        gossip_key=settings.gossip_key,
    )


def security_warnings(inputs: PlanInputs) -> Iterator[str]:
    """Warnings about the authority that signs, in its last year."""
    signer = inputs.own_authorities.get(0)
    if signer is None:
        return
    if signer.not_valid:
        yield f"{signer.not_valid.place_and_message}: slipway up refuses it"
    elif signer.days_left < LEAF_VALID_DAYS[0]:
        days = leaf_valid_days(signer.days_left)
        yield (
            f"the certificate authority {signer.subject} ends in {signer.days_left} days, on"
            f" {signer.ends:%Y-%m-%d}: what it signs is valid for {days} days; replace it before"
            " (docs/operations/rotate.md)"
        )


def leaf_valid_days(days_left: int) -> int:
    """Days a leaf lasts, given the signer's remaining days."""
    return next((days for days in LEAF_VALID_DAYS if days <= days_left), LEAF_VALID_DAYS[-1])


def _own(inputs: PlanInputs, index: int) -> OwnAuthorityPlan:
    found = inputs.own_authorities[index]
    return OwnAuthorityPlan(
        fingerprint=found.fingerprint,
        subject=found.subject,
        ends=found.ends.isoformat(),
        leaf_valid_days=leaf_valid_days(found.days_left),
    )
