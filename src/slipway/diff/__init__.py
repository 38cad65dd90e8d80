"""From `pulumi preview --json` to a comment that people read. Pure: text in, text out."""
