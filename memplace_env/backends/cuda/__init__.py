"""Plans on a real device: fast memory in the device, backing memory in its host, copies on a stream of their own."""
