"""Pure builders, one module per resource type: (routing table, settings) -> Envoy's JSON form."""
