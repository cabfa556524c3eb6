"""Whoever matters more goes first, and may take room from whoever matters less."""
