"""Tests of the portfolio solver."""
