"""An Envoy control plane for LLM serving: routes and endpoints from Consul, delta ADS to Envoy."""
