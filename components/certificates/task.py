"""A platform job's certificate: in a Nomad variable that only this job may read, and from there in
files of its task."""

from __future__ import annotations

from collections.abc import Mapping

from components.nomad.jobspec import LEFT_DELIMITER, RIGHT_DELIMITER, File

# Relative to the task's folder, where its process starts: Nomad keeps secrets in memory.
FOLDER = "secrets"
AUTHORITY, CERTIFICATE, KEY = (f"{FOLDER}/{name}.pem" for name in ("ca", "cert", "key"))


def variable_path(job_id: str) -> str:
    """Nomad lets a job's own tasks read the variable with this path."""
    return f"nomad/jobs/{job_id}"


def group_variable_path(job_id: str, group: str) -> str:
    """One more variable that the tasks of a job's group read."""
    return f"{variable_path(job_id)}/{group}"


def variable_items(files: Mapping[str, str]) -> dict[str, str]:
    """`files` are those of components.certificates.component: "ca.pem" becomes the item "ca"."""
    return {name.removesuffix(".pem"): content for name, content in files.items()}


def certificate_files(job_id: str, *, change_mode: str) -> tuple[File, ...]:
    """The files of the job's certificate. `change_mode`: "restart" for programs that read them only
    once, "noop" for those that watch them."""
    return tuple(
        File(
            path=path,
            content=(template := _item(job_id, name)),
            templates=(template,),
            change_mode=change_mode,
        )
        for name, path in (("ca", AUTHORITY), ("cert", CERTIFICATE), ("key", KEY))
    )


def password(job_id: str) -> str:
    """A password that the job's tasks share and only this job knows, as a template in their files.

    It is a digest of the private key, so nobody has to store it. It stays the same when the
    certificate is renewed, as the key does.
    """
    return _item(job_id, "key", digest=" | sha256Hex")


def _item(job_id: str, name: str, *, digest: str = "") -> str:
    # In Go's raw-string quotes, because double quotes would be escaped in JSON.
    opening = f"{LEFT_DELIMITER} with nomadVar `{variable_path(job_id)}` {RIGHT_DELIMITER}"
    value = f"{LEFT_DELIMITER} .{name}.Value{digest} {RIGHT_DELIMITER}"
    return f"{opening}{value}{LEFT_DELIMITER} end {RIGHT_DELIMITER}"
