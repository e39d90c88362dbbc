"""Arithmetic on lanes, rounded as the hardware rounds."""
