"""Puts an object into a bucket of moto. Run by the program of bed_target.py."""

from __future__ import annotations

import os

from cloud import client


def main() -> None:
    given = os.environ
    client("s3").put_object(
        Bucket=given["BED_BUCKET"], Key=given["BED_KEY"], Body=given["BED_CONTENT"].encode()
    )


if __name__ == "__main__":
    main()
