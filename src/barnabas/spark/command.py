"""`barnabas pipeline`: projects on Spark Declarative Pipelines, and pipelines that are ready."""

from barnabas.cli.groups import command_group
from barnabas.spark.archive_command import archive

app = command_group(
    """Move and transform records with Apache Spark, in this machine or on a cluster of Spark.

    \b
    Examples:
      barnabas pipeline init shop                    a project of your own, in SQL and Python
      barnabas pipeline run shop                     runs it; --continuous keeps it running
      barnabas pipeline archive orders --to ./archive
      barnabas pipeline replay --from ./archive --topic orders --to orders-again
    """
)

app.command()(archive)
