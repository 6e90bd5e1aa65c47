"""What a log measured: what starts and suspensions cost, how fast jobs are, what they worked."""
