"""Write a synthetic trace: `python make_trace.py mooncake --requests 24000 > trace.jsonl`."""

import argparse
import json
import sys

from fleet.generators import GENERATORS


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(GENERATORS))
    parser.add_argument("--requests", type=int, default=24_000)
    parser.add_argument("--duration-s", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.requests < 1 or arguments.duration_s <= 0:
        parser.error("--requests and --duration-s must be greater than 0")
    generate = GENERATORS[arguments.kind]
    for line in generate(
        requests=arguments.requests, duration_s=arguments.duration_s, seed=arguments.seed
    ):
        sys.stdout.write(json.dumps(line) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
