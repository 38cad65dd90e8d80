"""Certificates of one authority, as the files that programs and clients read."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from support.bootstrap import certificates


class Certificates:
    """The files of certificates, in folders by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificates()

    def issue(
        self, name: str, dns_name: str = "", address: str = "", *, by: Any = None, **options: Any
    ) -> Path:
        """`by` is another authority that signs it."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        files = (by or self.authority).issue(
            name, [dns_name] if dns_name else [], [address] if address else [], **options
        )
        for file, content in files.items():  # as services/host replaces them
            (folder / f".{file}").write_text(content, encoding="utf-8")
            (folder / f".{file}").replace(folder / file)
        return folder

    def client(self, shown: Path | None = None) -> ssl.SSLContext:
        """Trusts this authority, and shows the certificate in a folder, whoever signed it."""
        context = ssl.create_default_context(cadata=self.authority.pem)
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if shown is not None:
            context.load_cert_chain(shown / "cert.pem", shown / "key.pem")
        return context
