"""A question through the doors of the gateway, and its streamed answer."""
