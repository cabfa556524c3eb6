"""Draws the scenarios anew; tests only play what is stored."""
