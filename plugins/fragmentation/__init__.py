"""Give out as many cards as possible: no node is left with cards that no pod can use."""
