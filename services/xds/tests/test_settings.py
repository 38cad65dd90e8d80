"""Flags, environment variables, and the errors for invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_plane.settings import Address, parse

FLAGS = [
    *("--listen", "127.0.0.1:18000"),
    *("--http", "127.0.0.1:18001"),
    *("--gateway", "[::1]:8080"),
    *("--consul", "http://127.0.0.1:8500"),
]


def test_flags_are_read() -> None:
    settings = parse(FLAGS, {})

    assert settings.listen == Address("127.0.0.1", 18000)
    assert settings.gateway == Address("::1", 8080)
    assert str(settings.gateway) == "[::1]:8080"
    assert settings.consul_token is None


def test_a_shared_address_is_an_address() -> None:
    assert parse(FLAGS, {}).shared_address == ""
    assert parse([*FLAGS, "--shared-address", "10.0.0.9"], {}).shared_address == "10.0.0.9"
    with pytest.raises(SystemExit):
        parse([*FLAGS, "--shared-address", "10.0.0.9:80"], {})


def test_clients_speak_tls_only_if_a_file_has_a_certificate_for_them() -> None:
    assert parse(FLAGS, {}).public_certificate == ""
    flags = [*FLAGS, "--public-certificate", "secrets/public.json"]
    assert parse(flags, {}).public_certificate == "secrets/public.json"


def test_the_last_view_of_consul_is_kept_only_if_a_file_is_named() -> None:
    assert parse(FLAGS, {}).last_known is None
    assert parse([*FLAGS, "--last-known", "x/view.json"], {}).last_known == Path("x/view.json")


def test_the_environment_stands_in_for_flags() -> None:
    environment = {
        "XDS_LISTEN": "127.0.0.1:1",
        "XDS_HTTP": "127.0.0.1:2",
        "XDS_GATEWAY": "127.0.0.1:3",
        "CONSUL_HTTP_ADDR": "127.0.0.1:4",
    }

    settings = parse(["--http", "127.0.0.1:5"], environment)

    assert (settings.listen.port, settings.http.port) == (1, 5)
    assert str(settings.consul) == "http://127.0.0.1:4"


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("http://127.0.0.1:8500", "http://127.0.0.1:8500"),
        ("https://127.0.0.1:8501/", "https://127.0.0.1:8501"),
        ("https://consul.internal:8501", "https://consul.internal:8501"),
        ("https://[::1]:8501", "https://[::1]:8501"),
        ("consul.internal:8500", "http://consul.internal:8500"),
    ],
)
def test_consul_is_found_over_http_and_https(text: str, url: str) -> None:
    assert str(parse([*FLAGS, "--consul", text], {}).consul) == url


def test_the_token_comes_from_the_environment_or_a_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n", encoding="utf-8")

    assert parse(FLAGS, {"CONSUL_TOKEN": "direct"}).consul_token == "direct"
    assert parse(FLAGS, {"CONSUL_HTTP_TOKEN_FILE": str(file)}).consul_token == "from-file"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (FLAGS[2:], "--listen"),
        ([*FLAGS, "--listen", "localhost:1"], "expected an IP address and a port"),
        ([*FLAGS, "--http", "127.0.0.1:0"], "between 1 and 65535"),
        ([*FLAGS, "--gateway", "127.0.0.1"], "expected an IP address and a port"),
        ([*FLAGS, "--consul", "ftp://x:1"], "expected http://HOST:PORT or https://HOST:PORT"),
        ([*FLAGS, "--consul", "https://x"], "expected http://HOST:PORT or https://HOST:PORT"),
        ([*FLAGS, "--consul", "https://x:99999"], "--consul https://x:99999"),
        ([*FLAGS, "--consul", "https://x:1/v1"], "--consul https://x:1/v1"),
    ],
)
def test_a_wrong_setting_ends_with_code_2_and_says_which(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        parse(flags, {})

    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_a_token_file_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(FLAGS, {"CONSUL_HTTP_TOKEN_FILE": "/nowhere/token"})

    assert "/nowhere/token" in capsys.readouterr().err
