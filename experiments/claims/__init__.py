"""The claims bench: from the folder of a sweep to the file of raw blocks, and from such files to `docs/claims.md`."""
