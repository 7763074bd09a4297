"""Evaluating texts: reading, walking and scoring them, then calibration and measurement."""
