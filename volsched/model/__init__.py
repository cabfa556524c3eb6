"""Values that the rest of volsched works with.

They know no clock and no logger: objects as Kubernetes writes them (`api`), exact amounts (`quantity`, `resources`),
requests of pods (`requests`), rules about nodes (`selectors`, `template`) and refusals (`verdict`). They import only
the standard library, msgspec and numpy.

Packages below are about pods, queues, devices and plain values; modules here concern all of these.
"""
