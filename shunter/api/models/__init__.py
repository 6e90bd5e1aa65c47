"""What goes in and out over HTTP, as strict models; OpenAPI is made from them."""

__all__: list[str] = []
