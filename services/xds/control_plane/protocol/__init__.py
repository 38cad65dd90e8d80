"""The incremental xDS protocol of one stream as a pure state machine: no network, no clock."""
