"""Claims as a page: what was measured, with its interval, and what that says of each claim."""
