"""CertificateAuthority: the platform's own authority and every certificate that it signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import pulumi
import pulumi_nomad as nomad
import pulumi_tls as tls

from components.base import SlipwayComponent
from components.certificates.identities import Identity, authority, operator
from components.certificates.requests import private_key_pem, request_pem
from components.certificates.task import variable_items, variable_path
from components.hosts.program import HostProgram, secret_json
from components.hosts.realisation import HostRealisation
from slipway.plan.platform import OwnAuthorityPlan, PlatformPlan

OPERATOR_SCHEMA_VERSION = 1  # of the operator's document and its secrets
HOURS_PER_DAY = 24
AUTHORITY_VALID_DAYS = 3650
LEAF_VALID_DAYS = 365
RENEWED_DAYS_BEFORE = 120  # its end, by the next `up`; fewer for one that lives less


class OwnAuthority(Protocol):
    """The PEM texts of an authority that the user brings, which the plan does not contain."""

    @property
    def certificate(self) -> str: ...
    @property
    def intermediates(self) -> str:
        """Between what it signs and a root: they follow each certificate."""

    @property
    def key(self) -> str:
        """ "" where nothing is signed: offline, or if it does not sign."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAuthorityArgs:
    plan: PlatformPlan
    hosts: HostRealisation
    own: Mapping[int, OwnAuthority] = field(default_factory=dict)  # by place in the plan's list


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signer:
    certificate: pulumi.Input[str]
    key: pulumi.Output[str]
    intermediates: str = ""
    valid_days: int = LEAF_VALID_DAYS  # of what it signs

    @property
    def renewed_days_before(self) -> int:
        return self.valid_days * RENEWED_DAYS_BEFORE // LEAF_VALID_DAYS


class CertificateAuthority(SlipwayComponent):
    """The authority that all parts of one environment trust, and nobody else's certificates.

    Owns the seed of all keys, the authority's certificate unless the user brings it, and all
    certificates that it signs. While one authority replaces another there are two, and everybody
    trusts both. Certificates that expire within 120 days are replaced by the next update. Replacing
    the seed replaces every authority and every certificate at once, which a running cluster does
    not accept.

    Of a user's intermediate authority, only itself is trusted and not the one above it: that one
    signs others' certificates, too (docs/adr/0012-an-intermediate-is-the-anchor.md).

    Attributes: `pem` (the certificates of the authorities), `operator` (for programs on the
    operator's machine to depend on).
    """

    def __init__(
        self,
        name: str,
        args: CertificateAuthorityArgs,
        *,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("CertificateAuthority", name, _facts(args.plan), opts)
        self._organization = f"slipway {args.plan.environment}"
        self._seed = self.random_seed(name)
        authorities = [
            self._generation(name, each)
            if isinstance(each, int)
            else _brought(each, args.own[place])
            for place, each in enumerate(args.plan.security.authorities)
        ]
        self._signer = authorities[0]
        self.pem: pulumi.Output[str] = _together([each.certificate for each in authorities])
        certificate = self.issue(operator(args.plan))
        self.operator = args.hosts.programs.run(
            HostProgram(
                bundle=args.plan.operator.bundle,
                script="operator_access.py",
                document={"schema_version": OPERATOR_SCHEMA_VERSION},
                secrets=secret_json(certificate.apply(_operator_secrets)),
                removes=False,
            ),
            "operator-access",
            self,
        )
        self.register_outputs({})

    def _generation(self, name: str, generation: int) -> _Signer:
        key = self._private_key(generation)
        certificate = tls.SelfSignedCert(
            f"{name}-certificate" if generation == 1 else f"{name}-{generation}-certificate",
            private_key_pem=key,
            subject={
                "common_name": authority(generation).common_name,
                "organization": self._organization,
            },
            is_ca_certificate=True,
            set_subject_key_id=True,
            validity_period_hours=AUTHORITY_VALID_DAYS * HOURS_PER_DAY,
            allowed_uses=["cert_signing", "crl_signing", "digital_signature"],
            opts=self.child_options(),
        )
        return _Signer(certificate=certificate.cert_pem, key=key)

    def _private_key(self, generation: int) -> pulumi.Output[str]:
        return self._seed.apply(lambda seed: private_key_pem(seed, authority(generation)))

    def issue(self, identity: Identity) -> pulumi.Output[Mapping[str, str]]:
        """Sign a certificate; returns its files by name: ca.pem, cert.pem and key.pem. Secret."""
        signer = self._signer
        leaf = tls.LocallySignedCert(
            f"certificate-{identity.name}",
            cert_request_pem=self._seed.apply(
                lambda seed: request_pem(seed, identity, organization=self._organization)
            ),
            ca_private_key_pem=signer.key,
            ca_cert_pem=signer.certificate,
            set_subject_key_id=True,
            validity_period_hours=signer.valid_days * HOURS_PER_DAY,
            early_renewal_hours=signer.renewed_days_before * HOURS_PER_DAY,
            allowed_uses=_uses(identity),
            opts=self.child_options(),
        )
        # Secret, as the seed is.
        return pulumi.Output.all(
            seed=self._seed, authority=self.pem, certificate=leaf.cert_pem
        ).apply(
            lambda known: {
                "ca.pem": known["authority"],
                "cert.pem": known["certificate"] + signer.intermediates,
                "key.pem": private_key_pem(known["seed"], identity),
            }
        )


def job_certificate(
    parent: SlipwayComponent, job_id: str, files: pulumi.Output[Mapping[str, str]]
) -> pulumi.Resource:
    """The variable from which the tasks of the job read the files of their certificate."""
    return nomad.Variable(
        f"{job_id}-certificate",
        path=variable_path(job_id),
        items=files.apply(variable_items),  # secret, as the files are
        opts=parent.child_options(),
    )


def _brought(planned: OwnAuthorityPlan, own: OwnAuthority) -> _Signer:
    return _Signer(
        certificate=own.certificate,
        key=pulumi.Output.secret(own.key),
        intermediates=own.intermediates,
        valid_days=planned.leaf_valid_days,
    )


def _facts(plan: PlatformPlan) -> dict[str, object]:
    signer = plan.security.authorities[0]
    valid_days = LEAF_VALID_DAYS if isinstance(signer, int) else signer.leaf_valid_days
    return {"leaf_valid_days": valid_days, "authorities": list(plan.security.authority_ids)}


def _together(certificates: list[pulumi.Input[str]]) -> pulumi.Output[str]:
    """All certificates in one PEM text."""
    if len(certificates) == 1:
        return pulumi.Output.from_input(certificates[0])
    return pulumi.Output.all(*certificates).apply("".join)


def _uses(identity: Identity) -> list[str]:
    serves = ["server_auth"] if identity.serves else []
    return ["digital_signature", "client_auth", *serves]


def _operator_secrets(certificate: Mapping[str, str]) -> dict[str, object]:
    return {"schema_version": OPERATOR_SCHEMA_VERSION, "certificate": dict(certificate)}
