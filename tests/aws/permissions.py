"""Whether a role may do what a signed request asks for: by the role's own policies, action and
resource, as IAM judges, but for conditions. moto itself judges every resource as `*`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from moto.autoscaling.models import autoscaling_backends
from moto.core.exceptions import ServiceException
from moto.iam.access_control import IAMPolicy, IAMRequest, PermissionResult, S3IAMRequest
from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends
from moto.s3.models import s3_backends
from moto.secretsmanager.models import secretsmanager_backends
from moto.sts.models import AssumedRole, sts_backends
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Request

PARTITION = "aws"
ACCOUNT = "123456789012"  # moto's
_CREDENTIAL = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/\d{8}/(?P<region>[^/]+)/(?P<service>[^/]+)/"
)
_OF_OBJECTS = {
    "GET": "GetObject",
    "HEAD": "GetObject",
    "PUT": "PutObject",
    "DELETE": "DeleteObject",
}
_LISTING = "s3:ListBucket"
ALWAYS = "sts:GetCallerIdentity"


@dataclass(frozen=True)
class Signed:
    """By which key, and for which service, a request is signed."""

    key: str
    region: str
    service: str


@dataclass(frozen=True)
class Asked:
    action: str  # "s3:GetObject"
    resource: str  # an ARN, or `*`


class RefusedError(Exception):
    """AWS's code and words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def signed(request: Request) -> Signed | None:
    found = _CREDENTIAL.match(request.headers.get("Authorization", ""))
    return Signed(**found.groupdict()) if found else None


def role_of(by: Signed) -> AssumedRole | None:
    """None for the operator, who may do everything."""
    role: AssumedRole | None = sts_backends[ACCOUNT][PARTITION].get_assumed_role_from_access_key(
        by.key
    )
    return role


def must_be_allowed(request: Request, by: Signed, role: AssumedRole) -> None:
    """Raises RefusedError for a wrong signature, and for what no policy of the role allows."""
    asked = what_is_asked(request, by)
    _must_be_signed(request, by, role, asked.action)
    if asked.action == ALWAYS:
        return
    for each in _needed(asked):
        if not allowed(role, each):
            raise RefusedError(
                "AccessDenied",
                f"User: {role.arn} is not authorized to perform: {each.action} on resource:"
                f" {each.resource} because no identity-based policy allows the {each.action}"
                " action",
            )


def _needed(asked: Asked) -> Iterator[Asked]:
    """Only who may list a bucket learns that an object is not in it."""
    yield asked
    if asked.action == "s3:GetObject":
        bucket, _, key = asked.resource.rpartition(":")[2].partition("/")
        stored = s3_backends[ACCOUNT][PARTITION].buckets.get(bucket)
        if stored is None or key not in stored.keys:
            yield Asked(_LISTING, asked.resource.removesuffix(f"/{key}"))


def what_is_asked(request: Request, by: Signed) -> Asked:
    if by.service == "s3":
        return _of_s3(request)
    if by.service == "secretsmanager":
        _, _, name = request.headers.get("X-Amz-Target", "").partition(".")
        body = request.get_json(force=True, silent=True) or {}
        resource = _secret_arn(by.region, str(body.get("SecretId", "")))
        return Asked(f"secretsmanager:{name}", resource)
    action = f"{by.service}:{request.form.get('Action', '')}"
    if by.service == "autoscaling":
        return Asked(action, _group_arn(by.region, request.form.get("AutoScalingGroupName", "")))
    return Asked(action, "*")


def _of_s3(request: Request) -> Asked:
    bucket, _, key = request.path.strip("/").partition("/")
    arn = f"arn:{PARTITION}:s3:::{bucket}"
    if request.query_string or not key:
        return Asked(_LISTING, arn)
    return Asked(f"s3:{_OF_OBJECTS.get(request.method, request.method)}", f"{arn}/{key}")


def _secret_arn(region: str, name: str) -> str:
    found = secretsmanager_backends[ACCOUNT][region].secrets.get(name)
    if found:
        return str(found.arn)
    # Without the random characters, which no secret that does not exist has.
    return f"arn:{PARTITION}:secretsmanager:{region}:{ACCOUNT}:secret:{name}"


def _group_arn(region: str, name: str) -> str:
    if not name:
        return "*"
    found = autoscaling_backends[ACCOUNT][region].autoscaling_groups.get(name)
    if found:
        return str(found.arn)
    return (
        f"arn:{PARTITION}:autoscaling:{region}:{ACCOUNT}:autoScalingGroup:none"
        f":autoScalingGroupName/{name}"
    )


def allowed(role: AssumedRole, asked: Asked) -> bool:
    results = {
        policy.is_action_permitted(asked.action, resource=asked.resource)
        for policy in _policies(role)
    }
    return PermissionResult.PERMITTED in results and PermissionResult.DENIED not in results


def _policies(role: AssumedRole) -> Iterator[IAMPolicy]:
    """The role's inline ones; none if the role itself does not exist (any more)."""
    iam, name = iam_backends[ACCOUNT][PARTITION], role.role_arn.rpartition("/")[2]
    with suppress(NotFoundException):
        for policy in iam.list_role_policies(name):
            _, document = iam.get_role_policy(name, policy)
            yield IAMPolicy({"policy_document": _for_moto(document)})


def _for_moto(text: str) -> str:
    """Without conditions, none of which hold for moto, whose values it is not told. AWS's ? is any
    character, for which moto has no sign but that of regular expressions."""
    document = json.loads(text.replace("?", "."))
    for statement in document["Statement"]:
        statement.pop("Condition", None)
    return json.dumps(document)


def _must_be_signed(request: Request, by: Signed, role: AssumedRole, action: str) -> None:
    kind = S3IAMRequest if by.service == "s3" else IAMRequest
    try:
        kind(
            account_id=ACCOUNT,
            method=request.method,
            path=request.environ["RAW_URI"],
            data={},
            body=request.get_data(),
            headers=dict(request.headers.items()),
            action=action,
        ).check_signature()
    except (HTTPException, ServiceException):
        raise RefusedError(
            "SignatureDoesNotMatch", f"The request is not signed by {role.arn}"
        ) from None
