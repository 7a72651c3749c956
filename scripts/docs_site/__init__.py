"""The documentation site: documents, tutorials and pages made of docstrings, built by Sphinx without a network."""
