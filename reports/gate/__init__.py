"""Verdicts of the gate as text: Markdown for people, JUnit for CI."""
