"""Twenty operators of public models, to test the oracle on before it is trusted with anybody's."""
