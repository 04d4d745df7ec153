"""Everything that knows a key of the store, and the store that comes along when none is configured."""
