"""How an instance becomes a node: by what AWS says of it, without anybody's help."""
