"""What users write, read once at the edge into frozen values; mistakes come back as one list."""
