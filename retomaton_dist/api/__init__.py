"""What a user calls: `rd.build`, `rd.evaluate`, `rd.open` and their like, side by side.

The commands run the same functions; here keywords become settings.
"""
