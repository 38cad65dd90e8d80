"""A cluster whose node is introduced instead of having tokens from the beginning."""

from __future__ import annotations

import json
from dataclasses import dataclass

from admission import introduction
from cluster import GOLDEN, Cluster, JsonObject
from program.folders import Folders

INTRODUCED = GOLDEN.parent / "introduced"
NODE, POOL = "cpu-0", "cpu"


@dataclass
class AdmittedCluster(Cluster):
    """Its server is up after `up`, and the node joins with `join`."""

    def golden(self, name: str) -> JsonObject:
        if not (INTRODUCED / f"{name}.json").exists():
            return super().golden(name)
        text = (INTRODUCED / f"{name}.json").read_text().replace("127.77.0.", self.prefix)
        document: JsonObject = json.loads(text)
        return document

    def apply_node(self) -> None:
        """A test has it join."""

    def agent_secrets(self, host: str) -> JsonObject:
        secrets = super().agent_secrets(host)
        if host == NODE:
            tokens = secrets["agents"]["consul"]["acl"]["tokens"]
            tokens |= dict.fromkeys(tokens, "@token@")
            secrets["agents"]["nomad"]["consul"]["token"] = "@token@"
        return secrets

    def host_token(self, system: str, host: str) -> str:
        return "" if host == NODE else super().host_token(system, host)

    @property
    def folders(self) -> Folders:
        return Folders(run=self.run_folder, cache=self.root / "cache", scratch=self.scratch)

    def introduction(self, host: str = NODE, pool: str = POOL, ttl_s: int = 60) -> str:
        nomad = self.nomad(self.management["nomad"])
        return introduction.introduction(nomad, host, pool, ttl_s)

    def bring(self, introduction: str) -> None:
        """As the admission does over SSH."""
        self.scratch.mkdir(exist_ok=True)
        self.folders.introduction.touch(0o600)
        self.folders.introduction.write_text(introduction)

    def forget(self) -> str:
        tokens = {f"{system}_token": token for system, token in self.management.items()}
        secrets = {"schema_version": 1, **tokens}
        document = self.golden("admission")
        return self.succeed("admit.py", "remove", document=document, secrets=secrets)
