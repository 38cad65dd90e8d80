"""What looks like a secret."""

from __future__ import annotations

import re

# Credentials that are recognised anywhere, by the prefixes that their issuers document.
_CREDENTIAL = re.compile(
    r"AKIA[0-9A-Z]{16}"  # AWS access key
    r"|hf_[A-Za-z0-9]{30,}"  # Hugging Face
    r"|gh[pousr]_[A-Za-z0-9]{36}"  # GitHub
    r"|glpat-[A-Za-z0-9_-]{20}"  # GitLab
    r"|sk-[A-Za-z0-9_-]{20,}"  # OpenAI and others
    r"|xox[abprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----"
)
# Excludes the tokens of tokenizers: eos_token, pad_token, stop_token.
_CREDENTIALS = (
    r"(?:password|passwd|secret|secret_?id|api_?key|private_?key|credentials"
    r"|(?<!bos_)(?<!eos_)(?<!pad_)(?<!unk_)(?<!sep_)(?<!cls_)(?<!stop_)(?<!mask_)token)"
)
_SECRET_NAME = re.compile(rf"(?:^|[/_.-]){_CREDENTIALS}$", re.IGNORECASE)
# `"token": "literal"` in JSON, YAML, HCL or INI; not a reference, a path or an empty string.
_ASSIGNED = re.compile(
    rf"(?:^|[^A-Za-z0-9]){_CREDENTIALS}[\"']?\s*[:=]\s*[\"'](?![\"']|\$\{{|/|<%|\{{\{{)",
    re.IGNORECASE | re.MULTILINE,
)


def holds_secret(value: str) -> bool:
    """Whether a secret is anywhere in `value`."""
    return bool(_CREDENTIAL.search(value) or _ASSIGNED.search(value))


def names_secret(name: str, value: str) -> bool:
    """Whether a variable or key of this name holds its secret itself."""
    return bool(_SECRET_NAME.search(name)) and _is_literal(value)


def _is_literal(value: str) -> bool:
    """Neither empty, nor a path, nor a reference that is resolved on the node."""
    return bool(value) and not value.startswith(("${", "$(", "/", "<%", "{{"))
