"""From a schedule to rows of bytes, run by transports and on devices."""
