"""The small files of a store: who owns it, who has it locked, how it was left, its tables.

Each module is one kind of file, in the store's root or in `config/`.
"""
