"""What every machine on AWS has, fixed or of an elastic pool."""
