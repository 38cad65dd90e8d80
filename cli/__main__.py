"""`python -m cli`."""

import gc

# Nearly everything that a command imports and makes lives until the command ends, and each
# collection would take 1 % of the time of `slipway plan`.
gc.set_threshold(1_000_000, 50, 100)

from cli.app import main  # noqa: E402

main()
