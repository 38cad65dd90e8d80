"""The Triton doors: gRPC, HTTP and the metrics port."""
