"""What VirtualiZarr 1.0 to 1.3 wrote in this very format, made valid."""
