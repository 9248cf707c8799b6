"""The loop, the actions a brain may ask for, and the dossier it sees."""
