"""Write Grafana dashboards of the platform: fleet, models, gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.console import say, write_json
from cli.errors import WRONG_INPUT, CliError
from cli.options import Json

app = typer.Typer(add_completion=False)


@app.command()
def dashboards(
    folder: Annotated[
        Path, typer.Argument(help="Where the JSON files are written; made if it does not exist.")
    ],
    *,
    json: Json = False,
) -> None:
    """Write Grafana dashboards of the platform: fleet, models, gateway."""
    # A third of a second to load.
    from components.dashboards.grafana import dashboards as rendered  # noqa: PLC0415

    if folder.exists() and not folder.is_dir():
        raise CliError(
            f"{folder} is not a folder", fix="name a folder for the files", exit_code=WRONG_INPUT
        )
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: folder / f"{name}.json" for name in rendered()}
    for name, text in rendered().items():
        written[name].write_text(text, encoding="utf-8")
    if json:
        write_json({name: str(path) for name, path in written.items()})
        return
    for path in written.values():
        say(f"wrote {path}")
    say("docs/dashboards.md says how Grafana gets them, and how it reaches Prometheus")
