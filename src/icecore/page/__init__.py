"""The page: one HTML file of claims, runs and analyses that opens anywhere and requests nothing.

Python collects plain data, as JSON; the scripts in `static/`, built from `web/`, draw it.
"""
