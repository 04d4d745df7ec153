"""Tests of the policy kind."""
