"""`barnabas pipeline`: projects of Spark Declarative Pipelines, and ready-made pipelines."""

from barnabas.cli.connecting import with_connection_options
from barnabas.cli.subcommands import command_group
from barnabas.spark.archive.archive_command import archive
from barnabas.spark.audit.audit_command import audit
from barnabas.spark.mirror.mirror_command import mirror
from barnabas.spark.project.project_command import init, list_pipelines, run
from barnabas.spark.replay.replay_command import replay
from barnabas.spark.table.table_command import table
from barnabas.spark.transform.transform_command import transform

app = command_group(
    """Move and transform records with Apache Spark, on this machine or on a Spark cluster.

    \b
    Examples:
      barnabas pipeline init shop                    create a project in SQL and Python
      barnabas pipeline run shop                     run it; --continuous keeps it running
      barnabas pipeline archive orders --to ./archive
      barnabas pipeline table orders --to ./orders --format delta
      barnabas pipeline replay orders --from ./archive --to orders-again
      barnabas pipeline mirror orders --to other:9092
      barnabas pipeline audit ./barnabas-cluster --archive ./archive
    """
)

app.command()(init)
app.command()(run)
app.command("list")(list_pipelines)
app.command()(with_connection_options(archive))
app.command()(with_connection_options(table))
app.command()(with_connection_options(replay))
app.command()(mirror)  # of two clusters, with -X and --to-property
app.command()(with_connection_options(audit))
app.command()(with_connection_options(transform))
