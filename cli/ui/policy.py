"""The headers that keep a page to itself."""

from __future__ import annotations

_ALWAYS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def headers_of(upstream: str) -> dict[str, str]:
    """For every answer of an origin. No site elsewhere learns where a visitor comes from; forms
    of the page itself need their Origin, which `no-referrer` would take from them."""
    return {
        **_ALWAYS,
        "Content-Security-Policy": _POLICIES[upstream],
        "Referrer-Policy": "no-referrer" if upstream else "same-origin",
    }


def _directives(**directives: str) -> str:
    return "; ".join(f"{name.replace('_', '-')} {value}" for name, value in directives.items())


# Nomad's own policy, but requests go nowhere else.
_PROXIED = {
    "default_src": "'none'",
    "base_uri": "'self'",
    "connect_src": "'self'",
    "font_src": "'self' data:",
    "form_action": "'none'",
    "frame_ancestors": "'none'",
    "img_src": "'self' data:",
    "script_src": "'self'",
    "style_src": "'self' 'unsafe-inline'",
}
_POLICIES = {
    "": _directives(
        default_src="'none'",
        base_uri="'none'",
        connect_src="'self'",
        form_action="'self'",
        frame_ancestors="'none'",
        img_src="'self'",
        script_src="'self'",
        style_src="'self'",
    ),
    "nomad": _directives(**_PROXIED),
    # Consul's page starts with scripts in its HTML and compiles templates.
    "consul": _directives(
        **{**_PROXIED, "script_src": "'self' 'unsafe-inline' 'unsafe-eval'"},
    ),
    "prometheus": _directives(
        **{**_PROXIED, "script_src": "'self' 'unsafe-inline'", "manifest_src": "'self'"},
    ),
}
