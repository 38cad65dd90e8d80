"""All elastic pools of an environment on AWS, and what they share."""
