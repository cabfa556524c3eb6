"""More important jobs go first, and may take room from less important ones."""
