"""Real training libraries, each in an environment of its own, held to exact resumes."""
