"""Tests of the portfolio kind."""
