"""Scales rows by the weight of a table."""


def weight(table):
    """What all rows are divided by."""
    heaviest = 1
    for value in table:
        if value > heaviest:
            heaviest = value
    return heaviest


def process(rows, table):
    """Each row divided by the table's weight."""
    done = []
    for row in rows:
        scale = weight(table)
        done.append([value // scale for value in row])
    return done
