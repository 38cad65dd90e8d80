"""An object store that speaks S3's protocol, by boto3."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import boto3  # type: ignore[import-untyped]
from botocore import UNSIGNED  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]
from botocore.exceptions import (  # type: ignore[import-untyped]
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    ParamValidationError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from urllib3.exceptions import HTTPError

from preparation.document import Access, BucketSource
from preparation.errors import SourceError
from preparation.remote.checksum import Checksum, Kind
from preparation.remote.credentials import is_encrypted
from preparation.remote.source import (
    CHUNK_BYTES,
    ChangedError,
    RemoteFile,
    UnavailableError,
)

CONNECT_TIMEOUT_S, READ_TIMEOUT_S = 10, 60
DEFAULT_REGION = "us-east-1"  # a bucket elsewhere redirects
GIVE_ACCESS = (
    "give the host's role s3:ListBucket and s3:GetObject there (and kms:Decrypt, where the bucket"
    " is encrypted with a key), or nomad var put slipway/credentials/NAME access_key_id=…"
    " secret_access_key=…, and set source.credentials: NAME (in dev, set AWS_PROFILE)"
)
REPLACE_KEYS = "the keys are wrong or have expired: replace them (nomad var put -force)"
FIXES = {
    "InvalidAccessKeyId": REPLACE_KEYS,
    "SignatureDoesNotMatch": REPLACE_KEYS,
    "ExpiredToken": REPLACE_KEYS,
    "InvalidToken": REPLACE_KEYS,
    "RequestTimeTooSkewed": "correct the host's clock",
}
MAY_PASS = frozenset({"SlowDown", "TooManyRequests", "RequestTimeout", "InternalError"})
FIRST_SERVER_ERROR = 500
LOGIN_FAILED = (CredentialRetrievalError, PartialCredentialsError, SSOError, TokenRetrievalError)


# The checksums that S3 states of whole objects, by the names of its fields, the strongest first.
CHECKSUMS: Mapping[str, Kind] = {
    "SHA256": "sha256",
    "CRC64NVME": "crc64nvme",
    "CRC32C": "crc32c",
    "CRC32": "crc32",
}


class Bucket:
    key = "source.s3"

    def __init__(
        self,
        source: BucketSource,
        access: Access,
        credentials: Mapping[str, str] | None,
        *,
        connections: int,
    ) -> None:
        self._source = source
        self.description = f"s3://{source.bucket}/{source.prefix}"
        with self._explained(self.description):
            session = _session(credentials)
            # Who has no credentials asks as nobody, and so does who would show them to everybody.
            self._anonymous = session.get_credentials() is None or not is_encrypted(access)
            self._client = session.client(
                "s3",
                endpoint_url=access.endpoint,
                config=Config(
                    signature_version=UNSIGNED if self._anonymous else None,
                    retries={
                        "total_max_attempts": 1
                    },  # the fetch retries, and goes on where it was
                    connect_timeout=CONNECT_TIMEOUT_S,
                    read_timeout=READ_TIMEOUT_S,
                    max_pool_connections=connections,
                    s3={"addressing_style": "auto" if access.endpoint is None else "path"},
                ),
            )

    def listing(self) -> list[RemoteFile]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._source.bucket, Prefix=self._source.prefix
        )
        with self._explained(self.description):
            objects = [each for page in pages for each in page.get("Contents", ())]
        files = [self._file(each) for each in objects if not each["Key"].endswith("/")]
        if not files:
            raise SourceError(
                self.key, f"{self.description} has no files", fix="check the bucket's folder"
            )
        return files

    def stated(self, file: RemoteFile) -> Checksum | None:
        """Objects that were uploaded in parts may have a checksum of the checksums of their parts,
        which says nothing of the whole."""
        with self._explained(file.name):
            facts = self._client.head_object(**self._object(file), ChecksumMode="ENABLED")
        for name, kind in CHECKSUMS.items():
            value = facts.get(f"Checksum{name}")
            if value and "-" not in value and facts.get("ChecksumType") != "COMPOSITE":
                return Checksum(kind=kind, value=base64.b64decode(value).hex())
        return None

    @contextmanager
    def read(self, file: RemoteFile, offset: int) -> Iterator[Iterator[bytes]]:
        part = {"Range": f"bytes={offset}-"} if offset else {}
        with self._explained(file.name):
            answer = self._client.get_object(**self._object(file), **part)
            with closing(answer["Body"]) as body:
                yield body.iter_chunks(CHUNK_BYTES)

    def _object(self, file: RemoteFile) -> dict[str, str]:
        """Refused by the store if it has another version now."""
        return {
            "Bucket": self._source.bucket,
            "Key": self._source.prefix + file.name,
            "IfMatch": file.version,
        }

    def _file(self, listed: Mapping[str, Any]) -> RemoteFile:
        return RemoteFile(
            name=listed["Key"].removeprefix(self._source.prefix),
            size_bytes=listed["Size"],
            version=listed["ETag"],
        )

    @contextmanager
    def _explained(self, what: str) -> Iterator[None]:
        try:
            yield
        except ClientError as error:
            raise self._refused(what, error) from error
        except LOGIN_FAILED as error:
            raise SourceError(
                self.key,
                f"{what}: {error}",
                fix="log in again (aws sso login), or correct the role",
            ) from error
        except (ParamValidationError, ProfileNotFound, ValueError) as error:
            raise SourceError(
                self.key, f"{what}: {error}", fix="check the bucket's name, and your AWS settings"
            ) from error
        except (BotoCoreError, HTTPError) as error:
            raise UnavailableError(f"{what}: {error}") from error

    def _refused(self, what: str, error: ClientError) -> Exception:
        code = error.response["Error"].get("Code", "")
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        said = error.response["Error"].get("Message", "no reason given")
        who = " (asked anonymously: no credentials were found)" if self._anonymous else ""
        reason = f"{what}: the store answers {status} {code}: {said}{who}"
        if code in MAY_PASS or status == 429 or status >= FIRST_SERVER_ERROR:
            return UnavailableError(reason, retry_after_s=_retry_after_s(error))
        if status in (412, 416):
            return ChangedError(f"{what} has other content than it was listed with")
        if status == 404:
            if code in ("NoSuchKey", "404"):
                return ChangedError(f"{what} was removed since it was listed")
            return SourceError(self.key, reason, fix="check the bucket's name")
        return SourceError(self.key, reason, fix=FIXES.get(code, GIVE_ACCESS))


def _session(credentials: Mapping[str, str] | None) -> Any:
    """Without credentials of the document's, boto3 looks for the role of this host, which a busy
    metadata service may tell late."""
    os.environ.setdefault("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "3")
    keys = {}
    if credentials is not None:
        keys = {
            "aws_access_key_id": credentials["access_key_id"],
            "aws_secret_access_key": credentials["secret_access_key"],
            "aws_session_token": credentials.get("session_token"),
        }
    session = boto3.Session(**keys)
    return session if session.region_name else boto3.Session(**keys, region_name=DEFAULT_REGION)


def _retry_after_s(error: ClientError) -> float:
    value = error.response["ResponseMetadata"]["HTTPHeaders"].get("retry-after", "")
    return float(value) if value.isdecimal() else 0
