"""What every layer may use: array types, input checks, threads, warnings."""
