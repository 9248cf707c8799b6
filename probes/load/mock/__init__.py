"""A server with known token times and a menu of faults: what the load client is proved against."""
