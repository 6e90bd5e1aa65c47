"""A view that says of compressed frames how to read them."""

from alembic import op

revision = "0004"
down_revision = "0003"

_VIEW = """
CREATE VIEW events (seq, at_us, kind, job_id, payload) AS
SELECT frames.first_seq + event."key",
       json_extract(event.value, '$[1]'),
       json_extract(event.value, '$[0]'),
       json_extract(event.value, '$[2]'),
       (SELECT json_group_object(field.name, event.value -> field.position)
          FROM event_fields AS field
         WHERE field.kind = json_extract(event.value, '$[0]')
           AND field.position < json_array_length(event.value))
  FROM frames, json_each(
       CASE WHEN typeof(frames.payload) = 'text' THEN frames.payload
            ELSE json_extract('[]', 'this log is compressed: ask it by `shunter log sql`, not ' ||
                                    'by sqlite3 (frame ' || frames.first_seq || ')')
       END) AS event
"""


def upgrade() -> None:
    """Make the view anew."""
    op.execute("DROP VIEW events")
    op.execute(_VIEW)
