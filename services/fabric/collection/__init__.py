"""What a host finds out about its fabric, by itself and with another host."""
