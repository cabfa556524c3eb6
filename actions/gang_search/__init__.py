"""The search for a placement of a whole gang, where placing its members one after the other does not start it.

``searches`` decides which gangs of a session are searched for, and with how many steps. ``search`` is the search for
one gang: ``members`` has what is to be placed, ``board`` what stands where, ``proofs`` shows without a step that
nothing fits, ``displacing`` displaces members for others, ``teams`` takes topology domains in turn, ``exhaustive``
tries everything.
"""
