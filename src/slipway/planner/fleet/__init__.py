"""What an environment needs and costs: replicas, nodes, pools, prices."""
