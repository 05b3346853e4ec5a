"""What a person wants to know of a store: words, tables, pictures."""
