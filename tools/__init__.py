"""What keeps the house in order: who imports whom, and a picture of it."""
