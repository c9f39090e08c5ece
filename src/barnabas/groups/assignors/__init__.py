"""Server-side partition assignors."""
