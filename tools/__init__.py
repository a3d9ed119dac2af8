"""Development tools: the imports between packages, and a diagram of them."""
