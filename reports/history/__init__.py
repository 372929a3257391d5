"""What `perf history` found, as a page, text, Markdown and JSON."""
