"""The frontier: cascades over the whole trade-off of expected cost, error and worst-case time, from one build.

The paper gives each classifier the threshold that its own precision asks for; here thresholds, subset, order and last
classifier are chosen together, for the error that the whole cascade makes:

    least  error + price · cost    over cascades and their thresholds, for every price

=======================  =====================================================================================
module                   what
=======================  =====================================================================================
``calibration``          confidences of any scale become chances of being right
``rows``                 what a cascade does with rows: the measure of everything here
``acceptance_levels``    one level for all chances, an exact programme over sets
``separate_thresholds``  a threshold for each classifier, improved one at a time
``search``               which of the two rows can carry, and which cascades are worth keeping
``contents``             what a plan keeps of it; ``choice`` how it answers within limits
=======================  =====================================================================================
"""
