"""Are the answers still the same?"""
