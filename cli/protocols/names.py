"""What people call the gateway's protocols."""

PROTOCOL_NAMES = {"http": "OpenAI", "grpc": "Triton gRPC"}
