"""`shunter demo`: what a scheduler changes, in a few seconds and without any file."""

from shunter.app.cli import output
from shunter.app.cli.compare import print_comparison
from shunter.app.cli.options import Json


def demo(as_json: Json = False) -> None:
    """Show in seconds what a scheduler changes, on 2,000 made-up jobs."""
    from shunter.app.runs.demonstration import POLICIES, demonstrate, sentences

    output.note(f"2,000 generated jobs on 8 servers with 8 GPUs: {', '.join(POLICIES)}")
    with output.progress("runs done") as report:
        document = demonstrate(report)
    if as_json:
        output.print_json(document)
        return
    print_comparison(document)
    output.print_line()
    for number, sentence in enumerate(sentences(document), start=1):
        output.print_line(f"{number}. {sentence}")
