"""The ACLs of Consul and Nomad."""
