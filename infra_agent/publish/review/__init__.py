"""The evidence pack that a person sees before they decide."""
