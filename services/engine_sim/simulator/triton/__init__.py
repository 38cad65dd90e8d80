"""Triton's protocols: gRPC, HTTP and the metrics port."""
