"""The five documents' requirements, one test each, named by document and requirement."""
