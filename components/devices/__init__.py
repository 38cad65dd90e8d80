"""What watches over the devices of hosts."""
