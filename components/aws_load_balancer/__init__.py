"""The load balancer in front of the hosts of the gateway on AWS."""
