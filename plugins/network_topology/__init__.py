"""A plugin of Volcano that configurations may name; jobs that need it wait whether they do or not."""
