"""Weights from an object store or the model hub: listed, fetched, resumed and verified."""
