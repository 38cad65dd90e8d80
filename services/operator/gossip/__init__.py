"""The keys that Consul's and Nomad's agents encrypt their gossip with."""
