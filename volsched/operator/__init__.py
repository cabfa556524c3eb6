"""`volsched controllers`: the pure controllers of `volsched.controllers` against a cluster."""

from volsched.kube.client.home import have_a_home

have_a_home()  # the modules in here import kopf
