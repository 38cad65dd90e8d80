"""What tools say of ports, links and hosts, as values."""
