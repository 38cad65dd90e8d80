"""The few calls of Consul's HTTP API that commands need."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from cli.clusters.servers import Server

# A member's Status, by Serf's numbers.
STATES = {0: "none", 1: "alive", 2: "leaving", 3: "left", 4: "failed"}
ALIVE = 1


class Consul(Server):
    AUTHORIZATION_HEADER = "X-Consul-Token"

    def members(self) -> list[dict[str, Any]]:
        """Every agent that the server knows, also those that failed or left."""
        found: list[dict[str, Any]] = self._http.get("/v1/agent/members").raise_for_status().json()
        return found

    def force_leave(self, host: str) -> None:
        """Removes a failed agent, and the node's services with it. Again is the same as once."""
        # For an agent that it does not know, Consul answers 500.
        if host not in {member["Name"] for member in self.members()}:
            return
        path = f"/v1/agent/force-leave/{quote(host)}?prune"
        self._http.put(path).raise_for_status()

    def nodes_with(self, service: str) -> dict[str, str]:
        """Name -> ID of every node with this service in the catalog."""
        entries = self._http.get(f"/v1/catalog/service/{service}").raise_for_status().json()
        return {str(entry["Node"]): str(entry["ID"]) for entry in entries}

    def deregister(self, node: str) -> None:
        """Removes a node with its services from the catalog; one that lives registers again."""
        self._http.put("/v1/catalog/deregister", json={"Node": node}).raise_for_status()

    def revoke_tokens_of(self, role: str) -> None:
        """Deletes every token with this role."""
        for token in self._http.get("/v1/acl/tokens").raise_for_status().json():
            if role in {each["Name"] for each in token.get("Roles") or ()}:
                self._http.delete(f"/v1/acl/token/{token['AccessorID']}").raise_for_status()
