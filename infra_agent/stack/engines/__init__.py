"""One file per serving engine behind `base.Engine`."""
