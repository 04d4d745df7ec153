"""Trade-off frontier of cascades: expected cost, error, and worst-case time, from one fit.

The paper gives each classifier the threshold of its own target precision. Here thresholds, subset, order, and last
classifier are optimized together. For every price (errors per unit of cost), the search minimizes

    error + price · cost over cascades and their thresholds

=======================  =====================================================================================
module                   contents
=======================  =====================================================================================
``calibration``          calibration of confidences to probabilities of being correct
``rows``                 replay of a cascade on rows
``acceptance_levels``    one accept threshold on calibrated confidences: exact program over sets
``separate_thresholds``  one accept threshold per classifier: coordinate descent
``search``               choice between the two by cross-validation, and selection of cascades
``contents``             fields of a plan; ``point_selection`` selects points within limits
=======================  =====================================================================================
"""
