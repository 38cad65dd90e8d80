"""`python -m cli`."""

import gc

# Nearly everything that a command imports and makes lives until the command ends.
gc.set_threshold(100_000, 50, 100)

from cli.app import main  # noqa: E402

main()
