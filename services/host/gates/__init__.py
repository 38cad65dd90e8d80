"""The gate of the certificate, which runs on a host of the gateway."""
