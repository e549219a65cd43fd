"""Accounting: slurmdbd and its database."""
