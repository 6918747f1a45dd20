"""Generators of data files (networks, upgrade transactions) and of the documents that list tables of the code."""
