"""What the server says: the same words for the same prompt."""

WORDS = ("stone", "river", "glass", "tree", "moon", "wind", "salt", "iron")


def words(prompt, count):
    """`count` words that depend on the prompt alone."""
    start = sum(prompt.encode())
    return [f"{WORDS[(start + i * i) % len(WORDS)]} " for i in range(count)]
