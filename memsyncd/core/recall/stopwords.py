"""Which words of a question say nothing of what is sought? English ones; other languages join by adding their set here."""

from __future__ import annotations

ENGLISH = frozenset(
    """
    a about above after again against all am an and any are aren as at be because been before being below between both but by
    can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn has hasn have
    haven having he her here hers herself him himself his how i if in into is isn it its itself just ll let m me might more
    most must mustn my myself no nor not now of off on once only or other ought our ours ourselves out over own please re s
    same shall shan she should shouldn so some such t than that the their theirs them themselves then there these they this
    those through to too under until up upon us ve very was wasn we were weren what when where which while who whom why will
    with won would wouldn you your yours yourself yourselves
    """.split()
)
ENGLISH_ASKING = frozenset(
    """
    knew know knowing known knows mention mentioned mentioning mentions said say saying says speak speaking speaks spoke spoken
    talk talked talking talks tell telling tells told
    """.split()
)
"""What a question says of itself: what do we know of it, who spoke about it?"""

STOPWORDS = ENGLISH | ENGLISH_ASKING
