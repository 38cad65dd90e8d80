"""A replica of several members, one on each host: how they find each other, begin together and end
together."""
