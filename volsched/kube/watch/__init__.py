"""Input from the API server: lists and watches, kind by kind, up to the scheduling thread."""
