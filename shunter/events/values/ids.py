"""Names of things: every identifier is a type of its own, never a bare string."""

from typing import NewType

JobId = NewType("JobId", str)
NodeName = NewType("NodeName", str)
QueueName = NewType("QueueName", str)
GpuType = NewType("GpuType", str)
UserName = NewType("UserName", str)
