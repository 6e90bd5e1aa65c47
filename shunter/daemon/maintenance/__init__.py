"""What goes on beside the loop of a running cluster: snapshots, sealing, tidying, complaints."""

__all__: list[str] = []
