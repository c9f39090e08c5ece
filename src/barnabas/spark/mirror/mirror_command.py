"""`barnabas pipeline mirror`: copies topics to another cluster, with configs and groups."""

from threading import Event
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Properties, check_topics
from barnabas.cli.show import counted, show_json, show_table
from barnabas.spark.pipeline_options import (
    Conf,
    Continuous,
    Every,
    Master,
    Remote,
    sink_options,
    source_options,
    spark_place,
)
from barnabas.spark.session import EMBEDDED, spark_session
from barnabas.spark.terminal import PipelineProgress, Rate, ShowProgress, show_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.cli.client import ClusterClients
    from barnabas.spark.mirror.mirror_copy import Mirror, MirrorSpec
    from barnabas.spark.mirror.mirror_groups import GroupTranslation
    from barnabas.spark.mirror.mirror_state import MirrorState

_ATTEMPTS: Final = 3


def mirror(
    topics: Annotated[
        list[str], typer.Argument(metavar="TOPIC", help="Topics to copy.", callback=check_topics)
    ],
    to: Annotated[
        str, typer.Option("--to", metavar="HOST:PORT[,...]", help="Brokers of the target cluster.")
    ],
    to_properties: Annotated[
        list[str] | None,
        typer.Option(
            "--to-property",
            metavar="KEY=VALUE",
            help="Client property, as -X, of the target cluster.",
        ),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", help="Prefix of topic names in the target cluster.")
    ] = "",
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help="Copy the offsets of this group only; repeatable."),
    ] = None,
    groups: Annotated[
        bool, typer.Option("--groups/--no-groups", help="Copy the offsets of groups.")
    ] = True,
    continuous: Continuous = False,
    every: Every = 10.0,
    step: Annotated[
        int, typer.Option("--step", min=1, metavar="RECORDS", help="Most records per step.")
    ] = 1_000_000,
    allow_gaps: Annotated[
        bool, typer.Option("--allow-gaps", help="Continue past records deleted before the copy.")
    ] = False,
    master: Master = EMBEDDED,
    remote: Remote = None,
    conf: Conf = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Copy topics to another cluster: records, partitions, configs and group offsets.

    Keys, values, headers, timestamps and the order within partitions are preserved. Run the same
    command again to copy new records: it resumes where the last run ended, even if that run was
    killed, and copies nothing twice. Its state is in the topic __barnabas_mirror of the target
    cluster. No other producer may write to the copies.

    \b
    Examples:
      barnabas pipeline mirror orders users --to other:9092
      barnabas pipeline mirror orders --to other:9092 --prefix eu. --continuous
    """
    from barnabas.cli.client import ClusterClients
    from barnabas.spark.mirror.mirror_copy import Mirror, MirrorSpec
    from barnabas.spark.mirror.mirror_state import MirrorState

    source, target = ClusterClients(bootstrap, properties), ClusterClients(to, to_properties)
    place = spark_place(master, remote, conf, once=True)  # we resume at what is missing
    wanted = MirrorSpec(
        {name: prefix + name for name in topics},
        source_options(bootstrap, properties),
        sink_options(source_options(to, to_properties), place),
        step,
        allow_gaps,
    )
    _refuse_itself(source, target, wanted)
    run = _MirrorRun(source, target, wanted, None if not groups else tuple(group or ()))
    state = MirrorState(target)
    copier = Mirror(source, target, state, wanted)
    run.prepare(copier)  # errors are reported before Spark starts
    with spark_session("barnabas mirror", place) as spark:
        try:
            with show_progress("mirroring") as show:
                run.catch_up(spark, copier, state, show)
                while continuous:
                    Event().wait(every)
                    run.prepare(copier)
                    run.catch_up(spark, copier, state, show)
        finally:
            run.summarize(json)


def _refuse_itself(
    source: "ClusterClients", target: "ClusterClients", wanted: "MirrorSpec"
) -> None:
    from barnabas.spark.mirror.mirror_copy import cluster_id

    same = [name for name, copy in wanted.topics.items() if name == copy]
    if same and cluster_id(source) == cluster_id(target):
        raise Misused(
            f"--to {target.bootstrap} is the same cluster, so {same[0]} would be copied to itself;"
            " name another cluster, or rename the copies with --prefix"
        )


class _MirrorRun:
    """One run of the command, with its totals so far."""

    def __init__(
        self,
        source: "ClusterClients",
        target: "ClusterClients",
        wanted: "MirrorSpec",
        groups: tuple[str, ...] | None,
    ) -> None:
        self._source = source
        self._target = target
        self._wanted = wanted
        self._groups = groups
        self._rate = Rate()
        self._records = 0
        self._notes: list[str] = []
        self._translated: dict[str, GroupTranslation] = {}

    def prepare(self, copier: "Mirror") -> None:
        """Create or update the target topics, after checking that they are copies of the source."""
        from barnabas.spark.mirror.mirror_topics import mirror_topic, shape_of

        shapes = {name: shape_of(self._source, name) for name in self._wanted.topics}
        copier.check()
        for name, copy in self._wanted.topics.items():
            self._notes += mirror_topic(self._target, copy, shapes[name])
        copier.begin()

    def catch_up(
        self, spark: "SparkSession", copier: "Mirror", state: "MirrorState", show: ShowProgress
    ) -> None:
        """Copy all new records, then the offsets of groups."""
        from barnabas.spark.spark_errors import SparkCommandFailed, unless_late

        attempts = 0
        while True:
            try:
                step = unless_late(lambda: copier.step(spark))
            except SparkCommandFailed:
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise
                continue
            if step is None:
                break
            attempts = 0
            self._records += step.records
            show(PipelineProgress(self._records, step.left))
            if not step.left:  # otherwise a topic that always grows would keep it busy forever
                break
        if self._groups is not None:
            self._translate(spark, copier, state, self._groups)

    def _translate(
        self, spark: "SparkSession", copier: "Mirror", state: "MirrorState", wanted: tuple[str, ...]
    ) -> None:
        from barnabas.cli.groups.groups_admin import GroupAdmin
        from barnabas.spark.mirror.mirror_groups import translate_groups

        for each in translate_groups(
            GroupAdmin(self._source),
            GroupAdmin(self._target),
            copier.lineages(),
            state,
            lambda *place: copier.count(spark, *place),
            wanted,
        ):
            before = self._translated.get(each.group)
            moved = each.partitions + (before.partitions if before else 0)
            self._translated[each.group] = each._replace(partitions=moved)

    def summarize(self, json: bool) -> None:
        """Print what was copied, and the groups whose offsets were committed."""
        if json:
            show_json(
                {
                    "records": self._records,
                    "seconds": round(self._rate.seconds, 3),
                    "topics": dict(self._wanted.topics),
                    "changes": self._notes,
                    "groups": [each._asdict() for each in self._translated.values()],
                }
            )
            return
        for note in self._notes:
            print(note)
        if self._translated:
            rows = [list(each) for each in self._translated.values()]
            show_table(("group", "partitions", "note"), rows)
        seconds, rate = self._rate.seconds, self._rate.overall(self._records)
        print(
            f"copied {counted(self._records, 'new record')} of"
            f" {counted(len(self._wanted.topics), 'topic')} in {seconds:.1f} s ({rate:,.0f}/s)"
        )
