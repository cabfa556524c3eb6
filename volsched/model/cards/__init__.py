"""Accelerator cards as nodes offer them and as users name them, by labels and resources that vendors document."""
