"""What other programs answer about cases of this project: asked once, kept in files, and asked again on demand."""
