"""A plugin of Volcano that configurations may name. Jobs that need it wait whether they do or not."""
