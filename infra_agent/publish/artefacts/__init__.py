"""Launch settings as files that other programs take."""
