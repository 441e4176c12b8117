"""The engine beside every peer that is installed, in one run."""
