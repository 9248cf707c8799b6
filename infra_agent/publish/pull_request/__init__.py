"""Pull requests: a package on disk first, then a draft on GitHub or GitLab, or a branch on a plain git remote."""
