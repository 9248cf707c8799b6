"""Results of other load tools: read into one form, and our own written in theirs."""
