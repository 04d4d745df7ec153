"""What tests stand on: servers, stores, samples, and what every artifact promises."""
