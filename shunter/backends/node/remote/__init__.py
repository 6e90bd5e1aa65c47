"""What runs on remote hosts only: the RPC session, checkpoint transfer, the inventory."""

__all__ = ()
