"""Measures of samples, and of whole splits.

sorting, density, images    one value per sample, [B]
codes, probe                of all codes of a split: what they hold, and what simple readers find in them
"""
