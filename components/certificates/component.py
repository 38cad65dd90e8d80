"""CertificateAuthority: the platform's own authority and every certificate that it signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_nomad as nomad
import pulumi_tls as tls

from components.base import HostProgram, SlipwayComponent, secret_json
from components.certificates.identities import Identity, authority, operator
from components.certificates.requests import private_key_pem, request_pem
from components.certificates.task import variable_items, variable_path
from components.hosts.realisation import HostRealisation
from slipway.plan.platform import PlatformPlan

OPERATOR_SCHEMA_VERSION = 1  # of the operator's document and its secrets
HOURS_PER_DAY = 24
AUTHORITY_VALID_DAYS = 3650
LEAF_VALID_DAYS = 365
RENEWED_DAYS_BEFORE = 120  # by the next `up`


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateAuthorityArgs:
    plan: PlatformPlan
    hosts: HostRealisation


class CertificateAuthority(SlipwayComponent):
    """The authority that all parts of one environment trust, and nobody else's certificates.

    Owns the seed of all keys, the authority's certificate and all certificates that it signs. While
    one authority replaces another there are two, and everybody trusts both. Certificates that
    expire within 120 days are replaced by the next update. Replacing the seed replaces every
    authority and every certificate at once, which a running cluster does not accept.

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
        generations = args.plan.security.authorities
        authorities = [self._authority(name, generation) for generation in generations]
        self._signs, self._key = authorities[0].cert_pem, self._private_key(generations[0])
        self.pem: pulumi.Output[str] = _together([each.cert_pem for each in authorities])
        certificate = self.issue(operator(args.plan))
        self.operator = args.hosts.programs.run(
            HostProgram(
                bundle=args.plan.node_agent.bundle,
                script="operator_access.py",
                document={"schema_version": OPERATOR_SCHEMA_VERSION},
                secrets=secret_json(certificate.apply(_operator_secrets)),
                removes=False,
            ),
            "operator-access",
            self,
        )
        self.register_outputs({})

    def _authority(self, name: str, generation: int) -> tls.SelfSignedCert:
        return tls.SelfSignedCert(
            f"{name}-certificate" if generation == 1 else f"{name}-{generation}-certificate",
            private_key_pem=self._private_key(generation),
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

    def _private_key(self, generation: int) -> pulumi.Output[str]:
        return self._seed.apply(lambda seed: private_key_pem(seed, authority(generation)))

    def issue(self, identity: Identity) -> pulumi.Output[Mapping[str, str]]:
        """Sign a certificate; returns its files by name: ca.pem, cert.pem and key.pem. Secret."""
        leaf = tls.LocallySignedCert(
            f"certificate-{identity.name}",
            cert_request_pem=self._seed.apply(
                lambda seed: request_pem(seed, identity, organization=self._organization)
            ),
            ca_private_key_pem=self._key,
            ca_cert_pem=self._signs,
            set_subject_key_id=True,
            validity_period_hours=LEAF_VALID_DAYS * HOURS_PER_DAY,
            early_renewal_hours=RENEWED_DAYS_BEFORE * HOURS_PER_DAY,
            allowed_uses=_uses(identity),
            opts=self.child_options(),
        )
        # Secret, as the seed is.
        return pulumi.Output.all(
            seed=self._seed, authority=self.pem, certificate=leaf.cert_pem
        ).apply(
            lambda known: {
                "ca.pem": known["authority"],
                "cert.pem": known["certificate"],
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


def _facts(plan: PlatformPlan) -> dict[str, object]:
    authorities = list(plan.security.authorities)
    return {"leaf_valid_days": LEAF_VALID_DAYS, "authorities": authorities}


def _together(certificates: list[pulumi.Output[str]]) -> pulumi.Output[str]:
    """One file of certificates, as everybody reads it."""
    first, *others = certificates
    return first if not others else pulumi.Output.all(*certificates).apply("".join)


def _uses(identity: Identity) -> list[str]:
    serves = ["server_auth"] if identity.serves else []
    return ["digital_signature", "client_auth", *serves]


def _operator_secrets(certificate: Mapping[str, str]) -> dict[str, object]:
    return {"schema_version": OPERATOR_SCHEMA_VERSION, "certificate": dict(certificate)}
