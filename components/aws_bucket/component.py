"""AwsBucket: what elastic nodes fetch when they start."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.aws_bucket.publication import bucket_policy, publication_document
from components.base import SlipwayComponent
from components.hosts.program import HostProgram, Hosts
from components.hosts.ssh import NO_SECRETS
from slipway.plan.aws import AwsPlan
from slipway.plan.platform import PlatformPlan

PUBLICATION_TIMEOUT_S = 7200  # gigabytes of an engine over a slow line


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsBucketArgs:
    plan: PlatformPlan
    aws: AwsPlan
    programs: Hosts


class AwsBucket(SlipwayComponent):
    """The bucket, private and encrypted, and the run that fills it from the operator's cache.

    Owns all of its objects, which can be made again: `down` deletes them with the bucket. Artifacts
    of earlier updates stay, because running nodes may boot from them.

    Attributes: `name` (an output, for objects of others), `filled` (for what starts nodes to depend
    on).
    """

    def __init__(
        self, name: str, args: AwsBucketArgs, *, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        planned = args.aws
        super().__init__("AwsBucket", name, {"bucket": planned.bucket}, opts)
        bucket = aws.s3.Bucket(
            name,
            bucket=planned.bucket,
            force_destroy=True,
            tags={"Name": planned.bucket},
            opts=self.child_options(),
        )
        public = aws.s3.BucketPublicAccessBlock(
            f"{name}-private",
            bucket=bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self.child_options(),
        )
        encrypted = aws.s3.BucketServerSideEncryptionConfiguration(
            f"{name}-encrypted",
            bucket=bucket.id,
            rules=[_encryption(planned.kms_key)],
            opts=self.child_options(),
        )
        aws.s3.BucketPolicy(
            f"{name}-tls",
            bucket=bucket.id,
            policy=bucket_policy(planned.bucket),
            opts=self.child_options(depends_on=[public]),
        )
        self.name: pulumi.Output[str] = bucket.id
        self.filled: pulumi.Resource = args.programs.run(
            HostProgram(
                bundle=args.plan.operator.bundle,
                script="publish.py",
                document=publication_document(args.plan, planned),
                secrets=pulumi.Output.from_input(NO_SECRETS),
                removes=False,  # the objects are deleted with the bucket
                timeout_s=PUBLICATION_TIMEOUT_S,
            ),
            f"{name}-filled",
            self,
            depends_on=[bucket, encrypted],
        )
        self.register_outputs({})


def _encryption(key: str) -> aws.s3.BucketServerSideEncryptionConfigurationRuleArgs:
    rule = "BucketServerSideEncryptionConfigurationRule"  # its part's name is longer than a line
    by_default = getattr(aws.s3, f"{rule}ApplyServerSideEncryptionByDefaultArgs")
    return aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
        apply_server_side_encryption_by_default=by_default(
            sse_algorithm="aws:kms" if key else "AES256", kms_master_key_id=key or None
        ),
        bucket_key_enabled=bool(key),
    )
