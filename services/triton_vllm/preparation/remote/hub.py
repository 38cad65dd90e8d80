"""The model hub, or a mirror of it, by its own client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2
from huggingface_hub import HfApi, get_session, hf_hub_url
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import (
    build_hf_headers,
    hf_raise_for_status,
    parse_ratelimit_headers,
)

from preparation.document import Access, HubSource
from preparation.errors import SourceError
from preparation.remote.checksum import Checksum
from preparation.remote.source import ChangedError, RemoteFile, UnavailableError

TIMEOUT_S = 60
AUTHENTICATE = (
    "nomad var put slipway/credentials/NAME token=…, with a token of an account that may read it,"
    " and set source.credentials: NAME (in dev, set HF_TOKEN)"
)
MAY_PASS = frozenset({408, 429, 500, 502, 503, 504})


class Hub:
    key = "source.hf"

    def __init__(
        self, source: HubSource, access: Access, credentials: Mapping[str, str] | None
    ) -> None:
        self._source = source
        self._endpoint = access.endpoint
        # Without a token of the document's, the client looks for one of this user's: that is the
        # hub's, not a mirror's.
        ambient = None if access.endpoint is None else False
        self._token = credentials["token"] if credentials else ambient
        self.description = f"{source.repository} at {source.commit[:12]}"

    def listing(self) -> list[RemoteFile]:
        api = HfApi(endpoint=self._endpoint, token=self._token, library_name="slipway")
        with self._explained():
            info = api.model_info(
                self._source.repository,
                revision=self._source.commit,
                files_metadata=True,
                timeout=TIMEOUT_S,
            )
        if info.sha != self._source.commit:
            raise SourceError(
                "source.revision",
                f"the hub answers with commit {info.sha}",
                fix="use a whole commit, not a branch or a tag",
            )
        return [self._file(sibling) for sibling in info.siblings or ()]

    def stated(self, file: RemoteFile) -> Checksum | None:
        return file.checksum

    @contextmanager
    def read(self, file: RemoteFile, offset: int) -> Iterator[Iterator[bytes]]:
        url = hf_hub_url(
            self._source.repository,
            file.name,
            revision=self._source.commit,
            endpoint=self._endpoint,
        )
        headers = {
            **build_hf_headers(token=self._token, library_name="slipway"),
            "Accept-Encoding": "identity",
            **({"Range": f"bytes={offset}-"} if offset else {}),
        }
        with (
            self._explained(),
            get_session().stream("GET", url, headers=headers, timeout=TIMEOUT_S) as response,
        ):
            if response.is_error:
                response.read()  # the reason is in the body
            if response.status_code == httpx2.codes.REQUESTED_RANGE_NOT_SATISFIABLE:
                raise ChangedError(f"{file.name} is shorter than it was")
            hf_raise_for_status(response)
            ignored_range = offset and response.status_code != httpx2.codes.PARTIAL_CONTENT
            chunks = response.iter_raw()  # as it comes: what a larger chunk waits for can be lost
            yield _from(offset, chunks) if ignored_range else chunks

    @contextmanager
    def _explained(self) -> Iterator[None]:
        name = self._source.repository
        try:
            yield
        except GatedRepoError as error:
            raise SourceError(
                self.key,
                f"{name} is gated, and who asks has not been granted access",
                fix=f"accept the terms on its page with the account that owns the token, then"
                f" {AUTHENTICATE}",
            ) from error
        except RevisionNotFoundError as error:
            raise SourceError(
                "source.revision",
                f"{name} has no commit {self._source.commit}",
                fix="use the full 40-digit commit hash (Files and versions, then History)",
            ) from error
        except RepositoryNotFoundError as error:
            raise SourceError(
                self.key,
                f"{name} does not exist, or is private",
                fix=f"check its name, or {AUTHENTICATE}",
            ) from error
        except HfHubHTTPError as error:
            raise self._refused(error) from error
        except httpx2.RequestError as error:
            raise UnavailableError(f"the hub: {str(error) or type(error).__name__}") from error
        except (HFValidationError, OfflineModeIsEnabled) as error:
            raise SourceError(self.key, f"{name}: {error}", fix="check the name") from error
        except ValueError as error:  # an answer that is not JSON
            raise self._not_a_hub(str(error)) from error

    def _not_a_hub(self, reason: str) -> SourceError:
        return SourceError(
            "source.endpoint",
            f"{self._endpoint or 'the hub'} does not speak the hub's protocol: {reason}",
            fix="name a mirror that does",
        )

    def _file(self, sibling: Any) -> RemoteFile:
        """Large files are named by their SHA-256, others by Git's blob ID."""
        large, blob = sibling.lfs, sibling.blob_id
        if sibling.size is None or (large is None and blob is None):
            raise self._not_a_hub(f"it lists {sibling.rfilename} without its size and blob ID")
        checksum = (
            Checksum(kind="git-blob", value=blob)
            if large is None
            else Checksum(kind="sha256", value=large.sha256)
        )
        return RemoteFile(
            name=sibling.rfilename,
            size_bytes=sibling.size,
            version=checksum.value,
            checksum=checksum,
        )

    def _refused(self, error: HfHubHTTPError) -> SourceError | UnavailableError:
        status = error.response.status_code
        reason = f"the hub answers {status}: {error.server_message or error.response.reason_phrase}"
        if status in MAY_PASS:
            return UnavailableError(reason, retry_after_s=_retry_after_s(error.response))
        if status in (401, 403):
            return SourceError(self.key, f"{self._source.repository}: {reason}", fix=AUTHENTICATE)
        return SourceError(
            self.key,
            f"{self._source.repository}: {reason}",
            fix="check the name and the revision; source.endpoint names a mirror",
        )


def _from(offset: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    """What follows after `offset`, of a server that sends the whole file."""
    for chunk in chunks:
        if len(chunk) > offset:
            yield chunk[offset:]
        offset = max(0, offset - len(chunk))


def _retry_after_s(response: httpx2.Response) -> float:
    """What the hub says of its limits: Retry-After, or when the window of a used-up one ends."""
    value = response.headers.get("Retry-After", "")
    if value.isdecimal():
        return float(value)
    limit = parse_ratelimit_headers(response.headers)
    return float(limit.reset_in_seconds) if limit is not None and not limit.remaining else 0.0
