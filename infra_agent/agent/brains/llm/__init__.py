"""The brain that asks a language model: any OpenAI-compatible endpoint, one typed action at a time."""
