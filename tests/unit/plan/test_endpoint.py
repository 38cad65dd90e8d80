"""Endpoints: the one place that renders addresses."""

from __future__ import annotations

import pytest

from slipway.plan.endpoint import Endpoint

CONSUL = Endpoint(scheme="https", host="10.0.0.1", port=8501, server_name="consul", ca="ca.pem")


def test_an_endpoint_with_tls_renders_https() -> None:
    assert CONSUL.url == "https://10.0.0.1:8501"
    assert CONSUL.authority == "10.0.0.1:8501"


def test_another_host_of_a_service_is_spoken_to_in_the_same_way() -> None:
    other = CONSUL.at("10.0.0.2")
    assert other.url == "https://10.0.0.2:8501"
    assert (other.server_name, other.ca) == ("consul", "ca.pem")


def test_a_host_that_nobody_knows_is_never_rendered() -> None:
    unknown = CONSUL.at("")
    with pytest.raises(ValueError, match="8501 is not known"):
        _ = unknown.authority
    with pytest.raises(ValueError, match="8501 is not known"):
        _ = unknown.url
