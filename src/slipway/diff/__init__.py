"""Turns `pulumi preview --json` into a comment for people. Pure: text in, text out."""
