"""What a result was made with: versions, digests of weights, code and data."""
