"""Quotas of queues: each rule that plugins which limit queues share, once, for any dimension that they count.

A dimension is a resource, a card, or a DeviceClass with a dimension of its capacity::

    tree         which queues are below which
    amounts      sums of amounts, limits, guarantees and what these leave others
    division     what is deserved by weight, over a tree
    usage        what queues hold during a session: requests (``QueueUsageObserver``), or charges (``JobCharges``)
    demand       what jobs reserve and hold beyond their minimum: of requests (``QueueDemands``), or of any dimension
                 (``JobDemands``); ``JobSums`` adds up anything else by job
    checks       vote, headroom and refusal; queues that take no work
    resources    all of it for plugins that count resources
    order        which queue goes first, which victims do
    reclaim      who may take back what it deserves from whom
    past_use     order by use over time
    report       usage of queues, jobs that consume what is short, changes that would help a job
    status       status.allocated of Queues
    faults       Events about what queues state and cannot be kept

What a plugin gives, and where its answers come from:

================  =================  ==================  =====================  ====================  ==================
                  capacity           proportion          capacity-dra           capacity-card         drf
================  =================  ==================  =====================  ====================  ==================
dimension         resource           resource            class and dimension    cpu, memory; card     resource
a pod counts for  its request        its request         claims, each once      its charge, one card  its request
                                                         in a queue             of its list
limit             spec, less         spec, less          spec.dra, less         spec and annotation,  none
                  guarantees         guarantees          guarantees             less guarantees
deserved          spec               by weight           spec.dra               annotation, spec      equal shares
vote              ``checks``         ``checks``          ``checks``             ``checks``; lists     leaf queues alone
headroom          ``checks``         ``checks``, by      refusal of single      ``checks``; lists     leaf queues alone
                                     what is deserved    pods
order             share by path      share in the tree   share by path          share by path         share in the tree
reclaim           own (Volcano's)    own (Volcano's)     ``Elastic``            ``Elastic``, twice    own (H-DRF)
================  =================  ==================  =====================  ====================  ==================

capacity-card has lists of cards beside: a demand for one of several cards (``A|B``) is met by a matching over all of
them (``plugins.capacity_card.cards.matching``), and not card by card.
"""
