"""`memsyncd doctor`: what is not well, why, and what to do about it?"""
