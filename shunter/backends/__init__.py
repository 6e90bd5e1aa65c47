"""Where jobs really run, or seem to."""
