"""Recorded outputs with what a person says of each (recorded/sources.yaml)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from fabric.document import read_check
from fabric.findings import Finding
from fabric.tools import OF_HOSTS
from fabric.verdicts import judge

from catalog import thresholds

FOLDER = Path(__file__).with_name("recorded")
SET_ASIDE = "set_aside"
ALL_REDUCE = "all_reduce_bus_gbyte_per_s"


@dataclass(frozen=True)
class Recording:
    file: str
    tool: str
    source: str
    date: str
    planned: dict[str, Any]
    verdict: str
    check: str
    reason: str
    beside: str = ""
    derived_from: str = ""
    about: str = ""

    @property
    def text(self) -> str:
        return (FOLDER / self.file).read_text()

    def findings(self) -> list[Finding]:
        """What is judged with this output alone, or with the one beside it: of a host's tools on
        another host, of a measurement for another rail. Tools that did not run are left out."""
        document = self.document()
        check = read_check(document)
        found = judge(check.planned, check.thresholds, check.hosts, check.pairs)
        return [each for each in found if each.check != "tools"]

    def document(self) -> dict[str, Any]:
        planned = dict(self.planned)
        planned.setdefault("kind", "infiniband")
        planned.setdefault("rate_gbit_per_s", 100)
        limits = thresholds(planned["kind"])
        if bus := planned.pop(ALL_REDUCE, None):
            limits[ALL_REDUCE] = {"value": bus, "source": "this recording", "date": "2026-11-29"}
        outputs = [{"tool": self.tool, "text": self.text, "device": "of this file"}]
        other = (FOLDER / self.beside).read_text() if self.beside else ""
        document: dict[str, Any] = {
            "schema_version": 1,
            "planned": planned,
            "thresholds": limits,
            "hosts": [],
            "pairs": [],
        }
        if self.tool in OF_HOSTS:
            for name, text in (("one", self.text), ("two", other)):
                if text:
                    host = {"name": name, "outputs": [{"tool": self.tool, "text": text}]}
                    document["hosts"].append(host)
            return document
        if other:
            outputs.append({"tool": self.tool, "text": other, "device": "of the file beside"})
        document["pairs"].append({"host": "one", "peer": "two", "outputs": outputs})
        return document


def recordings() -> Iterator[Recording]:
    for row in yaml.safe_load((FOLDER / "sources.yaml").read_text()):
        yield Recording(**{**row, "date": str(row["date"])})
