"""Plays the two commands of the AWS command line that fill a bucket, with AWS's own library:

aws --region R s3api head-object --bucket B --key K
aws --region R s3 cp --no-progress - s3://B/K --expected-size N
"""

from __future__ import annotations

import argparse
import os
import sys

import boto3
from botocore.exceptions import ClientError


def main() -> int:
    top = argparse.ArgumentParser("aws", allow_abbrev=False)
    top.add_argument("--region", required=True)
    services = top.add_subparsers(dest="service", required=True)
    api = services.add_parser("s3api").add_subparsers(required=True)
    head = api.add_parser("head-object", allow_abbrev=False)
    head.add_argument("--bucket", required=True)
    head.add_argument("--key", required=True)
    copy = services.add_parser("s3").add_subparsers(required=True).add_parser("cp")
    copy.add_argument("--no-progress", action="store_true")
    copy.add_argument("--expected-size", type=int)
    copy.add_argument("source", choices=["-"])
    copy.add_argument("target")
    asked = top.parse_args()
    s3 = boto3.client(
        "s3",
        region_name=asked.region,
        endpoint_url=os.environ["AWS_ENDPOINT_URL"],
        aws_access_key_id="operator",
        aws_secret_access_key="operator",
    )
    try:
        if asked.service == "s3api":
            s3.head_object(Bucket=asked.bucket, Key=asked.key)
        else:
            bucket, _, key = asked.target.removeprefix("s3://").partition("/")
            s3.upload_fileobj(sys.stdin.buffer, bucket, key)
    except ClientError as error:
        sys.stderr.write(f"\n{error}\n")
        return 254
    return 0


if __name__ == "__main__":
    sys.exit(main())
