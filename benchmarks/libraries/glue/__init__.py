"""Code that trains each library on an environment of this package; docs/libraries.md shows these files."""
