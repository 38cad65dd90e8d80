"""The SHA-256 of each vendor's archive as this checkout first saw it, which holds ever after.

It is a file of the checkout, made when first used and meant to be committed: then every machine
gets the same archives, whatever the vendor or a mirror serves by that time.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from toolchain.errors import ToolchainError
from toolchain.locks import exclusive
from toolchain.progress import Step
from toolchain.sums import SumsError, read_sums, write_sums


@dataclass(frozen=True, kw_only=True)
class ArchivesLock:
    """`file` is in the checkout."""

    file: Path

    def sums(self) -> dict[str, str]:
        """Archive to SHA-256, in lower-case hex. ToolchainError (exit code 2) if the file cannot be
        read as such."""
        try:
            return read_sums(self.file.read_text())
        except FileNotFoundError:
            return {}
        except (SumsError, UnicodeDecodeError) as error:
            raise ToolchainError(
                f"{self.file}: {error}",
                fix="correct the line, or restore the file from git",
                exit_code=2,
            ) from error

    def record(self, archive: str, sha256: str, step: Step) -> None:
        """Adds an archive that was proven and used. ToolchainError if another run has recorded
        another sum for it in the meantime, or the file cannot be written."""
        if self.sums().get(archive) == sha256:
            return
        with exclusive(self._guard(), step):
            sums = self.sums()
            if sums.setdefault(archive, sha256) != sha256:
                raise self.mismatch(archive, sha256, "another run")
            self._write(write_sums(sums))

    def mismatch(self, archive: str, sha256: str, by: str) -> ToolchainError:
        """The error for an archive whose sum is not the recorded one, according to `by`."""
        return ToolchainError(
            f"{archive} has SHA-256 {sha256} according to {by}, but {self.file} recorded "
            f"{self.sums()[archive]} when it was first used",
            fix="find out why the archive of a released version was changed; if the new one is "
            f"right, remove its line from {self.file.name}. "
            "SLIPWAY_TOOL_SOURCES=path,wheel,module uses no archives",
        )

    def _guard(self) -> Path:
        """The lock file of those who write, in the checkout as well: runs with different caches
        write the same file."""
        folder = self.file.with_name(".slipway")  # ignored by git
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise self._not_writable(error) from error
        return folder / self.file.name

    def _write(self, text: str) -> None:
        partial = self.file.with_name(f".{self.file.name}.{secrets.token_hex(4)}.partial")
        try:
            partial.write_text(text)
            partial.replace(self.file)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise self._not_writable(error) from error

    def _not_writable(self, error: OSError) -> ToolchainError:
        return ToolchainError(
            f"cannot write {self.file}: {error.strerror}",
            fix="make its folder writable for your user: it records the checksums of the vendors' "
            "archives",
        )
