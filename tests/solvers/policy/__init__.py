"""Tests of the policy solver."""
