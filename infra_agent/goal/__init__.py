"""Goal model, the grammar that reads goal sentences, and goal files."""
